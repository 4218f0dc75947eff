import type { StreamFrame } from '../formats/format.ts'
import type { ApplyFault } from './fault.ts'
import {
  BIG,
  bodyOf,
  filler,
  firstHalf,
  frameOf,
  insert,
  instead,
  TOKENS_BEFORE_FAULT,
  take,
  tokensOf,
  withBody,
  withHeaders,
} from './frames.ts'

// Responses with status 200 and a wrong body.

const PAGE =
  '<!doctype html><html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>\n'

export const html: ApplyFault = script => instead(script, { status: 200, type: 'text/html', body: PAGE })

export const empty: ApplyFault = script =>
  instead(script, { status: 200, type: 'application/json', body: '' })

export const array: ApplyFault = script =>
  instead(script, { status: 200, type: 'application/json', body: '[{"message":"a list is no answer"}]' })

/** One event with invalid JSON between two good ones; a whole answer ends inside its JSON. */
export const badJson: ApplyFault = script => {
  if (!script.isStream) return withBody(script, firstHalf(script)[0]?.data ?? '')
  const bad = frameOf('data: {"id":"chatcmpl-broken","choices":[{"index":0,"delta":{"content":\n\n')
  return { ...script, frames: insert(script.frames, TOKENS_BEFORE_FAULT, bad) }
}

/** A line of 100 MB; in a whole answer, a member of 100 MB before all others. */
export const bigLine: ApplyFault = script => {
  const before = '{"padding":"'
  if (script.isStream) {
    const frames = chain(take(script.frames, TOKENS_BEFORE_FAULT), [frameOf(`data: ${before}`)], filler())
    return { ...script, frames, isFinished: false }
  }
  const rest = `",${bodyOf(script).subarray(1)}`
  const head = withHeaders(script.head, { 'content-length': before.length + BIG + Buffer.byteLength(rest) })
  const last = { data: rest, tokens: tokensOf(script) }
  return { ...script, head, frames: chain([frameOf(before)], filler(), [last]) }
}

/** Lines without the blank line that would end an event. */
export const noBlank: ApplyFault = script => {
  if (!script.isStream) return script
  return { ...script, frames: unblanked(script.frames) }
}

/** The provider fails in the middle and reports it in place of the next token. */
export const errorInStream: ApplyFault = (script, { format }) => {
  const body = format.encodeFailure({ status: 500, message: 'The simulator was told to fail in the middle.' })
  if (!script.isStream) return instead(script, { status: 200, type: 'application/json', body })
  const frames = chain(take(script.frames, TOKENS_BEFORE_FAULT), [
    frameOf(format.errorEvent?.(body) ?? `data: ${body}\n\n`),
  ])
  return { ...script, frames, isFinished: false }
}

function* chain(...parts: readonly Iterable<StreamFrame>[]): Generator<StreamFrame> {
  for (const part of parts) yield* part
}

function* unblanked(frames: Iterable<StreamFrame>): Generator<StreamFrame> {
  for (const { data, tokens } of frames) {
    yield { data: Buffer.from(data).toString('utf8').replaceAll('\n\n', '\n'), tokens }
  }
}
