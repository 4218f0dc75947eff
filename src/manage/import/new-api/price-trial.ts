import type { PriceInput } from '../../../domain/price.ts'
import { boundedOf, objectOf, type SourceRow, textOf, wholeOf } from '../values.ts'

/** Compares derived prices with what the last requests were charged there. */

const MAX_COUNT = 1_000_000_000
const CONSUME = 2n
/** Both sides round: the source to a unit, prices to six decimals. */
const TOLERANCE_UNITS = 1.01

const numberOf = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined)

/** The charge of a row in units by our price, with the factor of its group; undefined if it cannot be computed. */
function chargeOf(row: SourceRow, price: PriceInput, unitsPerUsd: number): number | undefined {
  const other = objectOf(row.other)
  // Tiers, tools, pictures and sound are not in the columns of a row.
  if (!other || price.tiers || other.image || other.audio_input || other.ws || other.tool_surcharges)
    return undefined
  const pair = numberOf(other.user_group_ratio)
  const factor = pair !== undefined && pair >= 0 ? pair : (numberOf(other.group_ratio) ?? 1)
  if (price.per_call != null) return price.per_call * unitsPerUsd * factor
  const { input, output, cached_input: cached = input, cache_write: write = input } = price
  if (input == null || output == null || cached == null || write == null) return undefined
  const count = (value: unknown) => boundedOf(value, 0, MAX_COUNT, 0)
  const cachedTokens = count(other.cache_tokens)
  const writtenTokens = count(other.cache_write_tokens ?? other.cache_creation_tokens)
  const isApart = other.claude === true || textOf(other.usage_semantic) === 'anthropic'
  const prompt = count(row.prompt_tokens) - (isApart ? 0 : cachedTokens + writtenTokens)
  const usd =
    Math.max(0, prompt) * input +
    cachedTokens * cached +
    writtenTokens * write +
    count(row.completion_tokens) * output
  return (usd / 1_000_000) * unitsPerUsd * factor
}

export type PriceTrial = { readonly compared: number; readonly differing: ReadonlyMap<string, number> }

/** How many of the rows cost the same by the derived prices, and how many of each model do not. */
export function tryPrices(
  rows: readonly SourceRow[],
  prices: ReadonlyMap<string, PriceInput>,
  unitsPerUsd: number,
): PriceTrial {
  const differing = new Map<string, number>()
  let compared = 0
  for (const row of rows) {
    const model = textOf(row.model_name)
    const price = prices.get(model)
    const units = wholeOf(row.quota)
    if (wholeOf(row.type) !== CONSUME || price === undefined || units === undefined) continue
    const charge = chargeOf(row, price, unitsPerUsd)
    if (charge === undefined) continue
    compared += 1
    if (Math.abs(charge - Number(units)) > TOLERANCE_UNITS)
      differing.set(model, (differing.get(model) ?? 0) + 1)
  }
  return { compared, differing }
}
