import type { StreamFrame } from '../formats/format.ts'
import type { Script } from '../script.ts'
import type { ApplyFault } from './fault.ts'
import { firstHalf, frameOf, instead, take, tokensOf, withHeaders } from './frames.ts'

// Responses that end too early, too late or never.

const DRIP_MS = 1_000

/** Accepts the request and never answers. */
export const hang: ApplyFault = script => ({ ...nothing(script), ending: 'silence' })

export const reset: ApplyFault = script => ({ ...nothing(script), ending: 'reset' })

export const cut: ApplyFault = (script, { numbers: [tokens = 0] }) => ({
  ...partOf(script, tokens),
  ending: 'cut',
})

export const stall: ApplyFault = (script, { numbers: [tokens = 0] }) => ({
  ...partOf(script, tokens),
  ending: 'silence',
})

/** A clean end of the HTTP message in the middle of the answer. */
export const eof: ApplyFault = (script, { numbers: [tokens = 0] }) => {
  const part = partOf(script, tokens)
  if (script.isStream) return part
  const [half = frameOf('')] = part.frames
  return { ...part, head: withHeaders(part.head, { 'content-length': half.data.length }) }
}

/** Everything before the first token, then the connection is closed. */
export const preamble: ApplyFault = script => {
  const frames = script.isStream ? opening(script.frames) : [{ data: '', tokens: tokensOf(script) }]
  return { ...script, frames, ending: 'cut', isFinished: false }
}

export const drip: ApplyFault = script => ({ ...script, frames: bytesOf(script.frames), paceMs: DRIP_MS })

export const slow: ApplyFault = (script, { numbers: [waitMs = 0] }) => ({ ...script, waitMs })

/** Answers while the client is still sending, and does not read the body. */
export const early: ApplyFault = (script, { format }) => {
  const body = format.encodeFailure({ status: 413, message: 'The simulator will not read so large a body.' })
  const length = `content-length: ${Buffer.byteLength(body)}`
  const lines = [
    'HTTP/1.1 413 Payload Too Large',
    'content-type: application/json',
    length,
    'connection: close',
  ]
  const raw = `${lines.join('\r\n')}\r\n\r\n`
  return {
    ...instead(script, { status: 413, type: 'application/json', body }),
    head: { raw },
    ending: 'linger',
  }
}

function nothing(script: Script): Script {
  return { ...script, head: undefined, frames: [], isFinished: false }
}

/** A stream is cut after some tokens; a whole answer is cut in half, after all its tokens were generated. */
function partOf(script: Script, tokens: number): Script {
  const frames = script.isStream ? take(script.frames, tokens) : firstHalf(script)
  return { ...script, frames, isFinished: false }
}

function* opening(frames: Iterable<StreamFrame>): Generator<StreamFrame> {
  for (const frame of frames) {
    if (frame.tokens > 0) return
    yield frame
  }
}

function* bytesOf(frames: Iterable<StreamFrame>): Generator<StreamFrame> {
  for (const { data, tokens } of frames) {
    const bytes = Buffer.from(data)
    for (let at = 0; at < bytes.length; at += 1) {
      yield { data: bytes.subarray(at, at + 1), tokens: at === bytes.length - 1 ? tokens : 0 }
    }
  }
}
