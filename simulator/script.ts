import type { OutgoingHttpHeaders } from 'node:http'
import type { Bill, Reply, StreamFrame } from './formats/format.ts'

/**
 * How an answer stops: as HTTP ends one (`end`), with the connection closed although more was promised (`cut`),
 * with a TCP reset (`reset`), never (`silence`), or with our side closed while the client may still be sending
 * (`linger`).
 */
export type Ending = 'end' | 'cut' | 'reset' | 'silence' | 'linger'

/** How an answer starts. Raw text goes past HTTP straight to the socket, and so does everything after it. */
export type Head =
  | { readonly status: number; readonly headers: OutgoingHttpHeaders }
  | { readonly raw: string }

/** All that goes over the socket for one request. An honest one is made of a reply; a fault makes another of it. */
export type Script = {
  /** What the count file is told; absent for what nobody bills. */
  readonly bill: Bill | undefined
  readonly isStream: boolean
  /** Absent when not even a status is sent. */
  readonly head: Head | undefined
  /** Taken one by one as the client reads. */
  readonly frames: Iterable<StreamFrame>
  readonly ending: Ending
  /** Whether the frames are the answer to its end; anything else is counted as unfinished. */
  readonly isFinished: boolean
  /** Waited before the head, besides the latency that the request or the simulator has. */
  readonly waitMs?: number
  /** Waited between frames where neither the request nor the simulator sets a pace. */
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
