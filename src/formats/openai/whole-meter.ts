import type { Usage } from '../../domain/usage.ts'
import { glimpse } from './glimpse.ts'
import type { TextSample } from './text-sample.ts'
import { type UsageOptions, usageIn } from './usage.ts'
import { isObject, member } from './value.ts'

/** A whole answer that can be delivered, with what is needed to bill it. */
export type WholeAnswer = {
  readonly kind: 'answer'
  readonly usage: Usage | undefined
  /** UTF-8 bytes of what the model wrote, where no usage is told and a count is needed; else 0. */
  readonly textBytes: number
  readonly reasoningBytes: number
}

/** Anything else that came with a status of success, in the vendor's own words where it has any. */
export type WholeReading =
  | WholeAnswer
  | { readonly kind: 'error'; readonly error: unknown }
  | { readonly kind: 'invalid'; readonly reason: string }

export type WholeMeterOptions = {
  /** The list that makes an object an answer: `data` for embeddings. */
  readonly list?: 'choices' | 'data'
  /** How many entries it owes; one with fewer is none. */
  readonly least?: number
  readonly usageOptions?: UsageOptions
  /** Is shown what the model wrote, where no usage is told. */
  readonly sample?: TextSample
}

export function meterWhole(body: Buffer, options: WholeMeterOptions = {}): WholeReading {
  const { list = 'choices', least = 0, usageOptions, sample } = options
  if (body.length === 0) return { kind: 'invalid', reason: 'the answer is empty' }
  const answer = parse(body)
  if (answer === undefined) return { kind: 'invalid', reason: 'the answer is not JSON' }
  if (!isObject(answer)) return { kind: 'invalid', reason: 'the answer is not a JSON object' }
  const error = member(answer, 'error')
  if (error) return { kind: 'error', error }
  const entries = member(answer, list)
  if (!Array.isArray(entries)) return { kind: 'invalid', reason: `the answer has no ${list}` }
  if (entries.length < least)
    return { kind: 'invalid', reason: `the answer has ${entries.length} of ${least} ${list}` }
  const usage = usageIn(answer, usageOptions)
  // Counting is for answers that tell no usage: the walk over a long one is not free.
  if (usage !== undefined) return { kind: 'answer', usage, textBytes: 0, reasoningBytes: 0 }
  const { textBytes, reasoningBytes } = glimpse(body, 0, body.length, 'message', sample)
  return { kind: 'answer', usage, textBytes, reasoningBytes }
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    // No answer; the caller says so in words.
    return undefined
  }
}
