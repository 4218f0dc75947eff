/**
 * Loaded into a test server before its own code: a request with this header blocks the event loop this many
 * times in a row, like a computation that should run in a thread.
 */
import http from 'node:http'

const STALL_MS = 1_200
const cell = new Int32Array(new SharedArrayBuffer(4))

function stall(times: number): void {
  if (times === 0) return
  Atomics.wait(cell, 0, 0, STALL_MS)
  // In the phase after the poll phase, so that requests are accepted between two stalls.
  setImmediate(() => stall(times - 1))
}

const { emit } = http.Server.prototype
http.Server.prototype.emit = function (event: string | symbol, ...args: unknown[]) {
  const request = args[0] as http.IncomingMessage | undefined
  const times = event === 'request' ? Number(request?.headers['x-stall'] ?? 0) : 0
  if (times > 0) setImmediate(() => stall(times))
  return emit.call(this, event, ...args)
}
