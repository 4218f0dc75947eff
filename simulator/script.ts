import type { OutgoingHttpHeaders } from 'node:http'
import type { Bill, Reply, StreamFrame } from './formats/format.ts'

/**
 * How a response ends: correctly (`end`), with the connection closed too early (`cut`), with a TCP reset (`reset`), never
 * (`silence`), or with our side closed while the client may still be sending (`linger`).
 */
export type Ending = 'end' | 'cut' | 'reset' | 'silence' | 'linger'

/** How a response starts. Raw text, and everything after it, is written directly to the socket. */
export type Head =
  | { readonly status: number; readonly headers: OutgoingHttpHeaders }
  | { readonly raw: string }

/** Everything that is sent for one request. A reply gives the correct script; a fault changes it. */
export type Script = {
  /** The line of the count file; absent if nothing is billed. */
  readonly bill: Bill | undefined
  readonly isStream: boolean
  /** Absent if not even a status is sent. */
  readonly head: Head | undefined
  /** Generated as the client reads. */
  readonly frames: Iterable<StreamFrame>
  readonly ending: Ending
  /** Whether the frames are the complete answer; otherwise it is counted as unfinished. */
  readonly isFinished: boolean
  /** Delay before the head, in addition to the latency of the request or simulator. */
  readonly waitMs?: number
  /** Delay between frames if neither the request nor the simulator sets a pace. */
  readonly paceMs?: number
}

export function honest(reply: Reply, status = 200): Script {
  const rest = { ending: 'end', isFinished: true } as const
  if (reply.kind === 'stream') {
    const length = reply.length === undefined ? {} : { 'content-length': reply.length }
    const headers = { 'content-type': reply.contentType, 'cache-control': 'no-cache', ...length }
    return { bill: reply.bill, isStream: true, head: { status, headers }, frames: reply.frames, ...rest }
  }
  if (reply.kind === 'file') {
    const headers = { ...reply.headers, 'content-length': reply.body.length }
    const frames = [{ data: reply.body, tokens: 0 }]
    return { bill: undefined, isStream: false, head: { status: reply.status, headers }, frames, ...rest }
  }
  const type = reply.kind === 'whole' ? reply.contentType : undefined
  const headers = {
    'content-type': type ?? 'application/json',
    'content-length': Buffer.byteLength(reply.body),
  }
  const [bill, tokens] = reply.kind === 'whole' ? [reply.bill, reply.tokens] : [undefined, 0]
  const frames = [{ data: reply.body, tokens }]
  return { bill, isStream: false, head: { status, headers }, frames, ...rest }
}
