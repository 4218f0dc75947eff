/**
 * Loaded into a server of the tests before anything of its own: a request with this header keeps the event loop from
 * turning, so many times in a row, as a computation that should have had a thread of its own would.
 */
import http from 'node:http'

const STALL_MS = 1_200
const cell = new Int32Array(new SharedArrayBuffer(4))

function stall(times: number): void {
  if (times === 0) return
  Atomics.wait(cell, 0, 0, STALL_MS)
  // In the phase after what came in was read, so that requests are met between two stalls.
  setImmediate(() => stall(times - 1))
}

const { emit } = http.Server.prototype
http.Server.prototype.emit = function (event: string | symbol, ...given: unknown[]) {
  const request = given[0] as http.IncomingMessage | undefined
  const times = event === 'request' ? Number(request?.headers['x-stall'] ?? 0) : 0
  if (times > 0) setImmediate(() => stall(times))
  return emit.call(this, event, ...given)
}
