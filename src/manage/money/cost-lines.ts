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

/** The details of a row's cost beside its columns, as the relay writes them at settlement. */
type StoredDetails = {
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
  readonly inferences?: readonly StoredInference[]
}

type StoredInference = Omit<StoredDetails, 'inferences'> & {
  readonly model?: string
  readonly prompt_tokens: number
  readonly completion_tokens: number
}

const sumOf = (usage: Counts, kinds: readonly Count[]) => kinds.reduce((sum, kind) => sum + usage[kind], 0)

type Tokens = Pick<StoredInference, 'prompt_tokens' | 'completion_tokens'>

/** The billed counts of a row: plain input and output are the columns minus the special counts. */
function countsOf({ prompt_tokens, completion_tokens }: Tokens, details: StoredDetails): Counts {
  const oneHour = details.cache_write_1h_tokens ?? 0
  const ownCounts: Counts = {
    ...EMPTY,
    cachedInput: details.cache_tokens ?? 0,
    cacheWrite: (details.cache_write_tokens ?? 0) - oneHour,
    cacheWrite1h: oneHour,
    audioInput: details.audio_input ?? 0,
    imageInput: details.image ?? 0,
    reasoning: details.reasoning_tokens ?? 0,
    audioOutput: details.audio_output ?? 0,
    imageOutput: details.image_output ?? 0,
    characters: details.characters ?? 0,
    seconds: details.seconds ?? 0,
    images: details.images ?? 0,
    searches: details.searches ?? 0,
    fileSearches: details.file_searches ?? 0,
    codeInterpreterCalls: details.code_interpreter_calls ?? 0,
    imageGenerationCalls: details.image_generation_calls ?? 0,
    calls: details.calls ?? 0,
  }
  return {
    ...ownCounts,
    input: prompt_tokens - sumOf(ownCounts, INPUT_COUNTS),
    output: completion_tokens - sumOf(ownCounts, OUTPUT_COUNTS),
  }
}

/** The columns contain every token, including those of further inferences. */
function usageOf(row: Tokens, details: StoredDetails): Usage {
  const { inferences = [] } = details
  const own = inferences.reduce(
    (remainder, each) => ({
      prompt_tokens: remainder.prompt_tokens - each.prompt_tokens,
      completion_tokens: remainder.completion_tokens - each.completion_tokens,
    }),
    row,
  )
  const counts = countsOf(own, details)
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

async function priceOf(
  db: Db,
  { price, priced_as }: StoredDetails,
  timeMs: number,
): Promise<Price | undefined> {
  if (priced_as === undefined) return undefined
  if (price === 'shipped') return shippedPrice(priced_as, timeMs)
  const version = ADMIN_PRICE.exec(price ?? '')?.[1]
  return version === undefined ? undefined : findPriceVersion(db, priced_as, Number(version))
}

/** The prices of the models that ran further inferences, by their priced names. */
async function pricesOfOthers(
  db: Db,
  { inferences = [] }: StoredDetails,
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

const presentLine = (line: CostLine) => ({
  kind: line.kind,
  quantity: line.count,
  rate: line.rateName,
  price: rateUsd(line.rateName, line.rate),
  amount: usdOfPicos(picosOf(line)),
})

/**
 * The cost of a request, line by line, at its price at admission. Undefined if the lines do not add up exactly to the
 * charge, because the price table has changed since.
 */
export async function costLinesOf(db: Db, row: LogRow) {
  const details = JSON.parse(row.other) as StoredDetails
  const price = await priceOf(db, details, row.created_time * 1000)
  const usage = usageOf(row, details)
  if (!price || !isPossible(usage)) return undefined
  const others = await pricesOfOthers(db, details, row.created_time * 1000)
  const at = (each: Price) => (each.variants ? priceAt(each, details.priced_for ?? {}) : each)
  const lines = usageLines(at(price), usage, model => at(others.get(model) ?? price))
  const picos = lines.reduce((sum, line) => sum + picosOf(line), 0n)
  const unit = BigInt(PICOS_PER_NANO)
  const charged = BigInt(row.cost + (details.overrun ?? 0)) * unit
  const rounding = charged - picos
  if (rounding < 0n || rounding >= unit) return undefined
  return {
    lines: lines.map(presentLine),
    rounding: usdOfPicos(rounding),
    overrun: usdOfPicos(BigInt(details.overrun ?? 0) * unit),
  }
}
