import { isObject, member } from '../domain/json-value.ts'
import type { Usage } from '../domain/usage.ts'
import { JsonError } from '../wire/json.ts'
import { parseBounded } from '../wire/json-bounds.ts'
import { keyOf } from '../wire/json-edit.ts'
import { type Cut, NAMES_ONLY, type Scan } from '../wire/json-scan.ts'
import { parseSkeleton, scanInSlices } from '../wire/json-slices.ts'
import { scanChunk, scanChunkInSlices } from './chunk-scan.ts'
import { type UsageOptions, usageIn } from './openai-usage.ts'
import { createTextSample, type TextSample } from './text-sample.ts'

/** A valid non-stream answer, with the data to bill it. */
type WholeAnswer = {
  readonly kind: 'answer'
  readonly usage: Usage | undefined
  /** UTF-8 bytes of the generated text, if no usage is reported and a count is needed; else 0. */
  readonly textBytes: number
  readonly reasoningBytes: number
  /** The beginning of that text; undefined if nothing is counted. */
  readonly sample?: TextSample
}

/** The reading of a non-stream answer with a success status, which may be an error or invalid. */
export type WholeReading =
  | WholeAnswer
  | { readonly kind: 'error'; readonly error: unknown }
  | { readonly kind: 'invalid'; readonly reason: string }

/** Members with usage or an error are short. */
const MAX_MEMBER_BYTES = 16 * 1024

export type WholeMeterOptions = {
  /** The list that an answer must have: `data` for embeddings. */
  readonly list?: 'choices' | 'data'
  /** The minimum number of entries. */
  readonly least?: number
  readonly usageOptions?: UsageOptions
}

/** The facts of an answer that need no counting. */
type Facts = Exclude<WholeReading, WholeAnswer> | Pick<WholeAnswer, 'kind' | 'usage'>

const uncounted = (usage: Usage): WholeAnswer => ({ kind: 'answer', usage, textBytes: 0, reasoningBytes: 0 })

/** Reads an answer of up to 64 KiB synchronously. */
export function meterWhole(body: Buffer, options: WholeMeterOptions = {}): WholeReading {
  if (body.length === 0) return { kind: 'invalid', reason: 'the response is empty' }
  let facts: Facts
  try {
    facts = readFacts(parseBounded(body.toString()), options)
  } catch (error) {
    return invalidFor(error)
  }
  if (facts.kind !== 'answer') return facts
  // Text is only counted if no usage is reported, because scanning a long answer costs time.
  if (facts.usage !== undefined) return uncounted(facts.usage)
  const sample = createTextSample()
  const { textBytes, reasoningBytes } = scanChunk(body, 0, body.length, 'message', sample)
  return { kind: 'answer', usage: undefined, textBytes, reasoningBytes, sample }
}

/** Reads an answer of any size without blocking the event loop, and without parsing its long texts. */
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
  if (facts.usage !== undefined) return uncounted(facts.usage)
  const sample = createTextSample()
  const { textBytes, reasoningBytes } = await scanChunkInSlices(body, cuts, 'message', sample)
  return { kind: 'answer', usage: undefined, textBytes, reasoningBytes, sample }
}

function invalidFor(error: unknown): WholeReading {
  if (error instanceof JsonError) return { kind: 'invalid', reason: `the response ${error.message}` }
  throw error
}

/** The answer without its long texts. If it has too many values to parse: its short members and the length of its list. */
async function skim(body: Buffer, scan: Scan, { list = 'choices' }: WholeMeterOptions): Promise<unknown> {
  const { cuts, members: places, isParsable } = scan
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
