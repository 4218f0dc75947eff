import { createRequire } from 'node:module'
import type * as GenaiPrices from '@pydantic/genai-prices'
import { scaled } from '../../domain/money.ts'
import type { Price, Tier } from '../../domain/price.ts'
import type { RateName, Rates } from '../../domain/rate.ts'
import { TOKEN_SOURCES, type TokenPriceSource } from './token-sources.ts'

/** A price and its start time. */
export type DatedPrice = { readonly fromMs: number; readonly price: Price }

/** The maker of a model and its prices, oldest first. */
export type Listing = { readonly owner: string; readonly prices: readonly DatedPrice[] }

type ModelPrice = GenaiPrices.ModelPrice
type Quote = NonNullable<ModelPrice[string]>

/** One of our rates, and the unit of the package's price: 10^`per` tokens or searches. */
type RateSource = { readonly rate: RateName; readonly per: number }
type Quoted = RateSource & { readonly quote: Quote }

const RATE_SOURCES: Readonly<Record<string, RateSource>> = {
  input_mtok: { rate: 'input', per: 6 },
  output_mtok: { rate: 'output', per: 6 },
  cache_read_mtok: { rate: 'cached_input', per: 6 },
  cache_write_mtok: { rate: 'cache_write', per: 6 },
  cache_write_1h_mtok: { rate: 'cache_write_1h', per: 6 },
  output_reasoning_mtok: { rate: 'reasoning', per: 6 },
  input_audio_mtok: { rate: 'audio_input', per: 6 },
  output_audio_mtok: { rate: 'audio_output', per: 6 },
  input_image_mtok: { rate: 'image_input', per: 6 },
  output_image_mtok: { rate: 'image_output', per: 6 },
  web_searches_kcount: { rate: 'per_search', per: 3 },
  storage_searches_kcount: { rate: 'file_search', per: 3 },
  // Perplexity's fee for the search that every request makes.
  requests_kcount: { rate: 'per_search', per: 3 },
}

/**
 * Rates of the package that are ignored, because no request of ours uses them or a similar rate covers them. A model with a
 * rate in neither list is left out: no price is better than an incomplete one.
 */
const IGNORED_RATES: ReadonlySet<string> = new Set([
  'cache_audio_read_mtok',
  'cache_image_read_mtok',
  'input_video_mtok',
  // Cited tokens are counted as input, which costs the same.
  'output_citation_mtok',
])

/** Every listed model with a price, by exact name. A build contains the result instead of this file (bundle.ts). */
export function tokenPrices(): Map<string, Listing> {
  // Loaded on demand: parsing the package takes longer than all modules of the gateway, and most commands need no price.
  const require = createRequire(import.meta.url)
  const { findProvider } = require('@pydantic/genai-prices') as typeof GenaiPrices
  const listings = new Map<string, Listing>()
  for (const source of TOKEN_SOURCES) {
    const provider = findProvider({ providerId: source.id })
    if (provider?.id !== source.id) throw new Error(`the price package no longer lists ${source.id}`)
    for (const model of provider.models) {
      const prices = datedPrices(model)
      if (prices.length === 0) continue
      for (const name of namesOf(model, source)) {
        if (!listings.has(name)) listings.set(name, { owner: source.owner, prices })
      }
    }
  }
  return listings
}

function namesOf({ id, match }: GenaiPrices.ModelInfo, { also = {} }: TokenPriceSource): string[] {
  const further = Object.entries(also).flatMap(([name, same]) => (same === id ? [name] : []))
  return [...(isLabel(id) ? [] : [id]), ...exactNames(match), ...further]
}

/** Some ids are not model names: `regional.…` means one in each region, and a trailing dash means a prefix. */
const isLabel = (id: string): boolean => id.startsWith('regional.') || id.endsWith('-')

function exactNames(match: GenaiPrices.MatchLogic): string[] {
  if ('equals' in match) return [match.equals]
  return 'or' in match ? match.or.flatMap(exactNames) : []
}

/**
 * One price for each start date. If a vendor's price depends on the time of day, its highest price applies all day, so that
 * no request is charged less than its cost.
 */
function datedPrices({ id, prices }: GenaiPrices.ModelInfo): DatedPrice[] {
  const entries = Array.isArray(prices) ? prices : [{ prices }]
  const byHour = entries.filter(entry => entry.constraint?.type === 'time_of_date')
  const hours = byHour.map(entry => entry.prices)
  const dated: DatedPrice[] = []
  for (const { constraint, prices: usual } of entries) {
    if (constraint?.type === 'time_of_date') continue
    const price = priceOf(dearest(usual, hours), id)
    if (!price) continue
    dated.push({
      fromMs: constraint ? Date.parse(constraint.start_date) : 0,
      price:
        hours.length > 0 ? { ...price, unitNote: 'The price of the most expensive hour of the day.' } : price,
    })
  }
  return dated.sort((a, b) => a.fromMs - b.fromMs)
}

function dearest(usual: ModelPrice, others: readonly ModelPrice[]): ModelPrice {
  const cost = ({ input_mtok = 0, output_mtok = 0 }: ModelPrice) =>
    usdAt(input_mtok, 0) + usdAt(output_mtok, 0)
  return others.reduce((most, other) => (cost(other) > cost(most) ? other : most), usual)
}

function priceOf(prices: ModelPrice, id: string): Price | undefined {
  const quoted: Quoted[] = []
  for (const [key, quote] of Object.entries(prices)) {
    if (quote === undefined || IGNORED_RATES.has(key)) continue
    const carried = RATE_SOURCES[key]
    if (!carried) return undefined
    quoted.push({ ...carried, quote })
  }
  // A model without rates is free only if its name says so.
  if (quoted.length === 0) return id.endsWith(':free') ? { rates: { input: 0, output: 0 } } : undefined
  const tiers = tiersOf(quoted)
  return { rates: ratesAt(quoted, 0), ...(tiers.length > 0 && { tiers }) }
}

function tiersOf(quoted: readonly Quoted[]): Tier[] {
  const tiered = quoted.filter(({ quote }) => stepsOf(quote).length > 0)
  const starts = new Set(tiered.flatMap(({ quote }) => stepsOf(quote).map(step => step.start)))
  return [...starts]
    .sort((a, b) => a - b)
    .map(inputOver => ({ inputOver, rates: ratesAt(tiered, inputOver + 1) }))
}

function ratesAt(quoted: readonly Quoted[], inputTokens: number): Rates {
  return Object.fromEntries(
    quoted.map(({ rate, per, quote }) => [rate, picosOf(usdAt(quote, inputTokens), per)]),
  )
}

function usdAt(quote: Quote, inputTokens: number): number {
  const step = stepsOf(quote).findLast(({ start }) => inputTokens > start)
  return step?.price ?? (typeof quote === 'number' ? quote : quote.base)
}

const stepsOf = (quote: Quote): readonly GenaiPrices.Tier[] =>
  typeof quote === 'number' ? [] : quote.tiers.toSorted((a, b) => a.start - b.start)

const PICO_DIGITS = 12

/** Some prices of the package have rounding errors; the nearest picodollar is right. */
function picosOf(usd: number, per: number): number {
  const digits = PICO_DIGITS - per
  const picos = scaled(usd.toFixed(digits), digits)
  if (picos === undefined) throw new Error(`${usd} USD is not a price`)
  return picos
}
