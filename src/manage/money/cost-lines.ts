import { type CostLine, picosOf, priceAt, usageLines } from '../../domain/cost.ts'
import { decimalText, PICOS_PER_NANO } from '../../domain/money.ts'
import type { Price, When } from '../../domain/price.ts'
import { rateUsd } from '../../domain/rate.ts'
import {
  type Count,
  type Counts,
  EMPTY,
  INPUT_COUNTS,
  OUTPUT_COUNTS,
  type Usage,
} from '../../domain/usage.ts'
import { shippedPrice } from '../../providers/prices/shipped.ts'
import type { LogRow } from '../../store/engine/schema.ts'
import type { Db } from '../../store/engine/store.ts'
import { findPriceVersion } from '../../store/records/prices.ts'

/** What a row keeps of its cost beside its columns, as `relay/conclude.ts` writes it. */
type Kept = {
  readonly price?: string
  readonly priced_as?: string
  readonly priced_for?: When
  readonly calls?: number
  readonly overrun?: number
  readonly cache_tokens?: number
  readonly cache_write_tokens?: number
  readonly cache_write_1h_tokens?: number
  readonly reasoning_tokens?: number
  readonly audio_input?: number
  readonly audio_output?: number
  readonly image?: number
  readonly image_output?: number
  readonly characters?: number
  readonly seconds?: number
  readonly images?: number
  readonly searches?: number
  readonly file_searches?: number
  readonly code_interpreter_calls?: number
  readonly image_generation_calls?: number
  /** Further inferences of the request, each with its own counts. */
  readonly inferences?: readonly KeptInference[]
}

type KeptInference = Omit<Kept, 'inferences'> & {
  readonly model?: string
  readonly prompt_tokens: number
  readonly completion_tokens: number
}

const sumOf = (usage: Counts, kinds: readonly Count[]) => kinds.reduce((sum, kind) => sum + usage[kind], 0)

type Tokens = Pick<KeptInference, 'prompt_tokens' | 'completion_tokens'>

/** The counts that a row was charged for: plain input and output are what is left of the columns. */
function countsOf({ prompt_tokens, completion_tokens }: Tokens, kept: Kept): Counts {
  const oneHour = kept.cache_write_1h_tokens ?? 0
  const told: Counts = {
    ...EMPTY,
    cachedInput: kept.cache_tokens ?? 0,
    cacheWrite: (kept.cache_write_tokens ?? 0) - oneHour,
    cacheWrite1h: oneHour,
    audioInput: kept.audio_input ?? 0,
    imageInput: kept.image ?? 0,
    reasoning: kept.reasoning_tokens ?? 0,
    audioOutput: kept.audio_output ?? 0,
    imageOutput: kept.image_output ?? 0,
    characters: kept.characters ?? 0,
    seconds: kept.seconds ?? 0,
    images: kept.images ?? 0,
    searches: kept.searches ?? 0,
    fileSearches: kept.file_searches ?? 0,
    codeInterpreterCalls: kept.code_interpreter_calls ?? 0,
    imageGenerationCalls: kept.image_generation_calls ?? 0,
    calls: kept.calls ?? 0,
  }
  return {
    ...told,
    input: prompt_tokens - sumOf(told, INPUT_COUNTS),
    output: completion_tokens - sumOf(told, OUTPUT_COUNTS),
  }
}

/** The columns hold every token; those of further inferences stand beside them too. */
function usageOf(row: Tokens, kept: Kept): Usage {
  const { inferences = [] } = kept
  const own = inferences.reduce(
    (left, each) => ({
      prompt_tokens: left.prompt_tokens - each.prompt_tokens,
      completion_tokens: left.completion_tokens - each.completion_tokens,
    }),
    row,
  )
  const counts = countsOf(own, kept)
  return inferences.length === 0
    ? counts
    : {
        ...counts,
        inferences: inferences.map(each => ({
          counts: countsOf(each, each),
          ...(each.priced_as !== undefined && { model: each.priced_as }),
        })),
      }
}

const isPossible = (counts: Counts) => counts.input >= 0 && counts.output >= 0 && counts.cacheWrite >= 0

const ADMIN_PRICE = /^admin:(\d+)$/

async function priceOf(db: Db, { price, priced_as }: Kept, timeMs: number): Promise<Price | undefined> {
  if (priced_as === undefined) return undefined
  if (price === 'shipped') return shippedPrice(priced_as, timeMs)
  const version = ADMIN_PRICE.exec(price ?? '')?.[1]
  return version === undefined ? undefined : findPriceVersion(db, priced_as, Number(version))
}

/** The prices of the models that ran further inferences, by the names they are priced as. */
async function pricesOfOthers(
  db: Db,
  { inferences = [] }: Kept,
  timeMs: number,
): Promise<Map<string, Price>> {
  const prices = new Map<string, Price>()
  for (const each of inferences) {
    const price = await priceOf(db, each, timeMs)
    if (price && each.priced_as !== undefined) prices.set(each.priced_as, price)
  }
  return prices
}

const PICO_DIGITS = 12

const usdOfPicos = (picos: bigint): string => decimalText(picos, PICO_DIGITS)

const tell = (line: CostLine) => ({
  kind: line.kind,
  quantity: line.count,
  rate: line.rateName,
  price: rateUsd(line.rateName, line.rate),
  amount: usdOfPicos(picosOf(line)),
})

/**
 * What a request cost, line by line, at the price it was admitted under. Undefined where the lines would not add up to
 * what was charged, to the nanodollar: a price table that has changed since tells nothing about then.
 */
export async function costLinesOf(db: Db, row: LogRow) {
  const kept = JSON.parse(row.other) as Kept
  const price = await priceOf(db, kept, row.created_time * 1000)
  const usage = usageOf(row, kept)
  if (!price || !isPossible(usage)) return undefined
  const others = await pricesOfOthers(db, kept, row.created_time * 1000)
  const at = (each: Price) => (each.variants ? priceAt(each, kept.priced_for ?? {}) : each)
  const lines = usageLines(at(price), usage, model => at(others.get(model) ?? price))
  const picos = lines.reduce((sum, line) => sum + picosOf(line), 0n)
  const unit = BigInt(PICOS_PER_NANO)
  const charged = BigInt(row.cost + (kept.overrun ?? 0)) * unit
  const rounding = charged - picos
  if (rounding < 0n || rounding >= unit) return undefined
  return {
    lines: lines.map(tell),
    rounding: usdOfPicos(rounding),
    overrun: usdOfPicos(BigInt(kept.overrun ?? 0) * unit),
  }
}
