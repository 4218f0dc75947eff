import type { Price, Tier } from '../../domain/price.ts'
import type { Rates, TokenRate } from '../../domain/rate.ts'

/** Kinds of tokens that cost more than plain ones, with the rates that apply if a price does not state theirs. */
const SPECIAL_RATES: Readonly<Partial<Record<TokenRate, readonly TokenRate[]>>> = {
  cache_write: ['input'],
  cache_write_1h: ['cache_write', 'input'],
  audio_input: ['input'],
  image_input: ['input'],
  audio_output: ['output'],
  image_output: ['output'],
}

const rateIn = (rates: Rates, names: readonly TokenRate[]): number =>
  names.map(name => rates[name]).find(rate => rate !== undefined) ?? 0

/** The rates that are higher than those of the reseller's price. */
function dearerRates(rates: Rates, own: Rates): Rates {
  return Object.fromEntries(
    (Object.entries(rates) as [TokenRate, number][]).filter(
      ([name, rate]) => rate > rateIn(own, [name, ...(SPECIAL_RATES[name] ?? [])]),
    ),
  )
}

/**
 * The price of a model that a reseller sells at its maker's prices. Lists of resellers often state the rates of plain tokens
 * only. Where the maker charges more, for audio, images, cache writes or long prompts, its reseller does so too.
 */
export function resellerPrice(own: Price, makers: Price): Price {
  if (own.rates.input !== makers.rates.input || own.rates.output !== makers.rates.output) return own
  const unstated = Object.entries(makers.rates).filter(
    ([name]) => name in SPECIAL_RATES && own.rates[name as TokenRate] === undefined,
  )
  const rates = { ...own.rates, ...dearerRates(Object.fromEntries(unstated), own.rates) }
  const tiers: readonly Tier[] =
    own.tiers ?? makers.tiers?.map(tier => ({ ...tier, rates: dearerRates(tier.rates, rates) })) ?? []
  return { ...own, rates, ...(tiers.length > 0 && { tiers }) }
}
