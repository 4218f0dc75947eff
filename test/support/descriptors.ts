/**
 * Loaded into a test server before its own code: a request with the header `x-hoard: take` opens files until
 * no descriptor is left, one with `x-hoard: give` closes them.
 */
import { closeSync, openSync } from 'node:fs'
import http from 'node:http'

const hoard: number[] = []

function take(): void {
  for (;;) {
    try {
      hoard.push(openSync('/dev/null', 'r'))
    } catch {
      return
    }
  }
}

function give(): void {
  for (const descriptor of hoard.splice(0)) closeSync(descriptor)
}

const { emit } = http.Server.prototype
http.Server.prototype.emit = function (event: string | symbol, ...args: unknown[]) {
  const request = event === 'request' ? (args[0] as http.IncomingMessage) : undefined
  const wish = request?.headers['x-hoard']
  if (wish === 'take') take()
  if (wish === 'give') give()
  return emit.call(this, event, ...args)
}
