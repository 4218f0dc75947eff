import { isObject, member } from '../domain/json-value.ts'
import type { Usage } from '../domain/usage.ts'
import { JsonError } from '../wire/json.ts'
import { parseBounded } from '../wire/json-bounds.ts'
import { keyOf } from '../wire/json-edit.ts'
import { type Cut, NAMES_ONLY, type Scan } from '../wire/json-scan.ts'
import { parseSkeleton, scanInSlices } from '../wire/json-slices.ts'
import { glimpse, glimpseInSlices } from './chunk-scan.ts'
import { type UsageOptions, usageIn } from './openai-usage.ts'
import type { TextSample } from './text-sample.ts'

/** A whole answer that can be delivered, with what is needed to bill it. */
type WholeAnswer = {
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

/** A member that tells usage or an error is short. */
const MAX_MEMBER_BYTES = 16 * 1024

export type WholeMeterOptions = {
  /** The list that makes an object an answer: `data` for embeddings. */
  readonly list?: 'choices' | 'data'
  /** How many entries it owes; one with fewer is none. */
  readonly least?: number
  readonly usageOptions?: UsageOptions
  /** Is shown what the model wrote, where no usage is told. */
  readonly sample?: TextSample
}

/** What an answer says that need not be counted. */
type Facts = Exclude<WholeReading, WholeAnswer> | Pick<WholeAnswer, 'kind' | 'usage'>

/** Reads an answer of up to 64 KiB in one go. */
export function meterWhole(body: Buffer, options: WholeMeterOptions = {}): WholeReading {
  if (body.length === 0) return { kind: 'invalid', reason: 'the response is empty' }
  let facts: Facts
  try {
    facts = readFacts(parseBounded(body.toString()), options)
  } catch (error) {
    return invalidFor(error)
  }
  if (facts.kind !== 'answer') return facts
  // Counting is for answers that tell no usage: the walk over a long one is not free.
  if (facts.usage !== undefined) return { ...facts, textBytes: 0, reasoningBytes: 0 }
  const { textBytes, reasoningBytes } = glimpse(body, 0, body.length, 'message', options.sample)
  return { ...facts, textBytes, reasoningBytes }
}

/** Reads an answer of any size without holding up the event loop, and without making a value of its long texts. */
export async function meterLarge(body: Buffer, options: WholeMeterOptions = {}): Promise<WholeReading> {
  let facts: Facts
  let cuts: readonly Cut[]
  try {
    const scan = await scanInSlices(body, { limits: NAMES_ONLY, cutsNumbers: true })
    cuts = scan.cuts
    facts = readFacts(await skim(body, scan, options), options)
  } catch (error) {
    return invalidFor(error)
  }
  if (facts.kind !== 'answer') return facts
  if (facts.usage !== undefined) return { ...facts, textBytes: 0, reasoningBytes: 0 }
  const { textBytes, reasoningBytes } = await glimpseInSlices(body, cuts, 'message', options.sample)
  return { ...facts, textBytes, reasoningBytes }
}

function invalidFor(error: unknown): WholeReading {
  if (error instanceof JsonError) return { kind: 'invalid', reason: `the response ${error.message}` }
  throw error
}

/** The answer without its long texts; of one with more values than are parsed, its short members and the length of its list. */
async function skim(body: Buffer, scan: Scan, { list = 'choices' }: WholeMeterOptions): Promise<unknown> {
  const { cuts, places, isParsable } = scan
  if (isParsable) return parseSkeleton(body, cuts)
  const answer: Record<string, unknown> = {}
  for (const { start, nameEnd, valueStart, end, entries } of places) {
    const name = keyOf(body, start, nameEnd)
    if (name === list) answer[name] = Array.from({ length: entries })
    else if (end - valueStart <= MAX_MEMBER_BYTES)
      answer[name] = parseBounded(body.toString('utf8', valueStart, end))
  }
  return answer
}

function readFacts(answer: unknown, { list = 'choices', least = 0, usageOptions }: WholeMeterOptions): Facts {
  if (!isObject(answer)) return { kind: 'invalid', reason: 'the response is not a JSON object' }
  const error = member(answer, 'error')
  if (error) return { kind: 'error', error }
  const entries = member(answer, list)
  if (!Array.isArray(entries)) return { kind: 'invalid', reason: `the response has no ${list}` }
  if (entries.length < least)
    return { kind: 'invalid', reason: `the response has ${entries.length} of ${least} ${list}` }
  return { kind: 'answer', usage: usageIn(answer, usageOptions) }
}
