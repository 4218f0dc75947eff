import type { StreamFrame } from '../formats/format.ts'
import type { Head, Script } from '../script.ts'

/** Faults "in the middle" of a stream occur after so many tokens of the answer. */
export const TOKENS_BEFORE_FAULT = 3

export const BIG = 100 * 1024 * 1024
const PIECE = Buffer.alloc(64 * 1024, 'x')

/** 100 MB of one letter, in chunks, so that only one chunk is in memory. */
export function* filler(): Generator<StreamFrame> {
  for (let sentBytes = 0; sentBytes < BIG; sentBytes += PIECE.length) yield { data: PIECE, tokens: 0 }
}

export function frameOf(data: string | Uint8Array): StreamFrame {
  return { data, tokens: 0 }
}

/** The frames up to the one that reaches so many tokens. */
export function* take(frames: Iterable<StreamFrame>, tokens: number): Generator<StreamFrame> {
  let tokenCount = 0
  if (tokens <= 0) return
  for (const frame of frames) {
    yield frame
    tokenCount += frame.tokens
    if (tokenCount >= tokens) return
  }
}

/** The frames, with one more after so many tokens. */
export function* insert(
  frames: Iterable<StreamFrame>,
  tokens: number,
  extra: StreamFrame,
): Generator<StreamFrame> {
  let tokenCount = 0
  let isDone = false
  for (const frame of frames) {
    yield frame
    tokenCount += frame.tokens
    if (isDone || tokenCount < tokens) continue
    isDone = true
    yield extra
  }
}

/** The first half of a whole answer's bytes. All its tokens were generated before the first byte was sent. */
export function firstHalf(script: Script): readonly StreamFrame[] {
  const body = bodyOf(script)
  const half = body.subarray(0, Math.floor(body.length / 2))
  return [{ data: half, tokens: tokensOf(script) }]
}

export function bodyOf({ frames }: Script): Buffer {
  return Buffer.concat(Array.from(frames, ({ data }) => Buffer.from(data)))
}

export function tokensOf({ frames }: Script): number {
  let tokens = 0
  for (const frame of frames) tokens += frame.tokens
  return tokens
}

/** The same whole answer with other bytes. */
export function withBody(script: Script, body: string | Uint8Array): Script {
  const data = Buffer.from(body)
  const head = withHeaders(script.head, { 'content-length': data.length })
  return { ...script, head, frames: [{ data, tokens: tokensOf(script) }] }
}

export function withHeaders(
  head: Head | undefined,
  headers: Record<string, string | number>,
): Head | undefined {
  return head !== undefined && 'status' in head ? { ...head, headers: { ...head.headers, ...headers } } : head
}

/** Another response instead of the answer: the model did not run, and nothing is billed. */
export function instead(script: Script, replacement: { status: number; type: string; body: string }): Script {
  const { status, type, body } = replacement
  const headers = { 'content-type': type, 'content-length': Buffer.byteLength(body) }
  return {
    bill: script.bill === undefined ? undefined : { ...script.bill, promptTokens: 0 },
    isStream: script.isStream,
    head: { status, headers },
    frames: [frameOf(body)],
    ending: 'end',
    isFinished: false,
  }
}
