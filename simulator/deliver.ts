import type { ServerResponse } from 'node:http'
import type { Frame, Reply } from './formats/format.ts'

export type Timing = {
  /** Before the first byte. */
  readonly latencyMs: number
  /** Between two chunks of a stream. */
  readonly paceMs: number
}

/** Told once how a billed answer ended: how many of its tokens were generated, and whether that was all. */
export type Tally = (completionTokens: number, isFinished: boolean) => void

/** Sends a reply at its pace, for as long as the client listens and no faster than it reads. */
export async function deliver(
  response: ServerResponse,
  reply: Reply,
  { timing, tally }: { timing: Timing; tally: Tally },
): Promise<void> {
  const client = watch(response)
  if (timing.latencyMs > 0) await client.pause(timing.latencyMs)
  if (client.hasLeft()) return tally(0, false)
  if (reply.kind === 'stream') return stream(response, reply, { client, paceMs: timing.paceMs, tally })
  tally(reply.kind === 'whole' ? reply.tokens : 0, true)
  sendJson(response, 200, reply.body)
}

export function sendJson(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  })
  response.end(body)
}

type StreamReply = Extract<Reply, { kind: 'stream' }>

async function stream(
  response: ServerResponse,
  { contentType, frames }: StreamReply,
  { client, paceMs, tally }: { client: Client; paceMs: number; tally: Tally },
): Promise<void> {
  response.writeHead(200, { 'content-type': contentType, 'cache-control': 'no-cache' })
  const source = frames[Symbol.iterator]()
  let tokens = 0
  let current = source.next()
  while (current.done !== true) {
    const frame: Frame = current.value
    const next = source.next()
    tokens += frame.tokens
    if (next.done === true) {
      tally(tokens, true)
      response.end(frame.data)
      return
    }
    if (!response.write(frame.data)) await client.drained()
    if (paceMs > 0) await client.pause(paceMs)
    if (client.hasLeft()) return tally(tokens, false)
    current = next
  }
}

type Client = ReturnType<typeof watch>

/** The one at the other end. Every wait ends at once when they leave. */
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
        const timer = setTimeout(resolve, ms)
        wake = () => {
          clearTimeout(timer)
          resolve()
        }
      }),
    drained: () =>
      new Promise<void>(resolve => {
        if (isGone) return resolve()
        wake = resolve
        response.once('drain', resolve)
      }),
  }
}
