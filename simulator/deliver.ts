import type { ServerResponse } from 'node:http'
import type { Writable } from 'node:stream'
import type { Head, Script } from './script.ts'

export type Timing = {
  /** Before the first byte. */
  readonly latencyMs: number
  /** Between two chunks of a stream. */
  readonly paceMs: number
}

/** Called once at the end of a billed answer, with the number of generated tokens and whether it is complete. */
export type Tally = (completionTokens: number, isFinished: boolean) => void

// Long enough for any client to read the response before its upload fails.
const LINGER_MS = 5_000

/** Sends a script at its pace and with backpressure, until the client disconnects. */
export async function deliver(
  response: ServerResponse,
  script: Script,
  { timing, tally }: { timing: Timing; tally: Tally },
): Promise<void> {
  const client = watch(response)
  const latencyMs = timing.latencyMs + (script.waitMs ?? 0)
  if (latencyMs > 0) await client.pause(latencyMs)
  if (client.hasLeft()) return tally(0, false)
  const paceMs = timing.paceMs > 0 ? timing.paceMs : (script.paceMs ?? 0)
  const { ending, isFinished } = script
  const out = open(response, script.head)
  const source = script.frames[Symbol.iterator]()
  let tokens = 0
  let current = source.next()
  while (current.done !== true) {
    const frame = current.value
    const next = source.next()
    tokens += frame.tokens
    if (next.done === true && ending === 'end') {
      tally(tokens, isFinished)
      out.end(frame.data)
      return
    }
    if (!out.write(frame.data)) await client.drained(out)
    if (paceMs > 0) await client.pause(paceMs)
    if (client.hasLeft()) return tally(tokens, false)
    current = next
  }
  // A fault that cuts the answer waits until the frames are sent, and counts them before it closes the connection.
  if (ending !== 'end') await client.flushed(out)
  if (ending === 'silence') await client.pause(Number.POSITIVE_INFINITY)
  tally(tokens, isFinished)
  await stop(response, { out, ending, client })
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, {
    ...headers,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  })
  response.end(body)
}

/** Sends the head, if there is one, and returns the writer for the rest. */
function open(response: ServerResponse, head: Head | undefined): Writable {
  if (head === undefined) return response
  if ('status' in head) return response.writeHead(head.status, head.headers)
  const socket = response.socket ?? response
  socket.write(head.raw)
  return socket
}

async function stop(
  response: ServerResponse,
  { out, ending, client }: { out: Writable; ending: Script['ending']; client: Client },
): Promise<void> {
  if (ending === 'reset') response.socket?.resetAndDestroy()
  else if (ending === 'cut') response.destroy()
  else out.end()
  if (ending !== 'linger') return
  await client.pause(LINGER_MS)
  response.destroy()
}

type Client = ReturnType<typeof watch>

/** Tracks the client's connection. Every wait ends when the client disconnects. */
function watch(response: ServerResponse) {
  let isGone = response.destroyed
  let wake = () => {}
  response.on('close', () => {
    isGone = true
    wake()
  })
  return {
    hasLeft: () => isGone,
    pause: (ms: number) =>
      new Promise<void>(resolve => {
        if (isGone) return resolve()
        const timer = Number.isFinite(ms) ? setTimeout(resolve, ms) : undefined
        wake = () => {
          clearTimeout(timer)
          resolve()
        }
      }),
    drained: (out: Writable) =>
      new Promise<void>(resolve => {
        if (isGone) return resolve()
        wake = resolve
        out.once('drain', resolve)
      }),
    /** Resolves when everything was sent, including the head. */
    flushed: (out: Writable) =>
      new Promise<void>(resolve => {
        if (isGone) return resolve()
        wake = resolve
        if (out === response && response.headersSent) response.flushHeaders()
        // Writes are ordered: the callback of an empty write comes after all before it.
        response.socket?.write('', () => resolve())
      }),
  }
}
