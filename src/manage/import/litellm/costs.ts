import type { JsonObject } from '../../../domain/json-object.ts'
import type { PriceInput } from '../../../domain/price.ts'
import type { TokenRate, UnitRate } from '../../../domain/rate.ts'
import { rateOf } from '../values.ts'

/** The costs that an entry of LiteLLM's `model_list` states, in USD per token or unit, as a price. */

/** Costs of tokens by LiteLLM's names. Each may also be stated for inputs above a number of tokens. */
const TOKEN_COSTS: Readonly<Record<string, TokenRate>> = {
  input_cost_per_token: 'input',
  output_cost_per_token: 'output',
  cache_read_input_token_cost: 'cached_input',
  cache_creation_input_token_cost: 'cache_write',
  cache_creation_input_token_cost_above_1hr: 'cache_write_1h',
  output_cost_per_reasoning_token: 'reasoning',
  input_cost_per_audio_token: 'audio_input',
  output_cost_per_audio_token: 'audio_output',
  input_cost_per_image_token: 'image_input',
  output_cost_per_image_token: 'image_output',
}
/** Costs of seconds; the first that is stated applies. */
const SECOND_COSTS = ['output_cost_per_second', 'input_cost_per_second'] as const
/** Costs of other units. Beside costs of tokens, LiteLLM charges only one of both, so those of tokens apply. */
const UNIT_COSTS: Readonly<Record<string, UnitRate>> = {
  output_cost_per_image: 'image',
  input_cost_per_character: 'per_character',
}
const ABOVE = /^(.+)_above_(\d{1,6})k_tokens$/

/** Prices of units take twelve decimals. */
const UNIT_DIGITS = 12

type Rates = { [name in TokenRate | UnitRate]?: number }

const isSecond = (name: string): boolean => (SECOND_COSTS as readonly string[]).includes(name)

export const isCost = (name: string): boolean => /(^|_)cost(_|$)/.test(name)

const usdOf = (value: unknown): number | undefined => {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  return typeof number === 'number' && Number.isFinite(number) && number >= 0 ? number : undefined
}

const perMillion = (usd: number) => rateOf(usd * 1_000_000)
const perUnit = (usd: number) => Number(usd.toFixed(UNIT_DIGITS))

/** Costs by name, without those that are no number. `litellm_params` wins over `model_info`. */
function statedCosts(params: JsonObject, info: JsonObject): Map<string, number> {
  const names = new Set([...Object.keys(params), ...Object.keys(info)].filter(isCost))
  return new Map(
    [...names].flatMap((name): [string, number][] => {
      const usd = usdOf(params[name] ?? info[name])
      return usd === undefined ? [] : [[name, usd]]
    }),
  )
}

type StatedPrice = {
  /** Undefined if the entry leaves the costs to LiteLLM's own table. */
  readonly price: PriceInput | undefined
  /** Costs above 0 that a price here does not have. */
  readonly omitted: readonly string[]
}

export function readStatedPrice(params: JsonObject, info: JsonObject): StatedPrice {
  const costs = statedCosts(params, info)
  const rates: Rates = {}
  /** Costs that need costs of tokens beside them, and those that exclude them. */
  const above: (readonly [name: string, over: number, rates: Rates])[] = []
  const units: (readonly [name: string, rates: Rates])[] = []
  const unknown: string[] = []
  for (const [name, usd] of costs) {
    const [, base = name, thousands] = ABOVE.exec(name) ?? []
    const rate = Object.hasOwn(TOKEN_COSTS, base) ? TOKEN_COSTS[base] : undefined
    const unit = Object.hasOwn(UNIT_COSTS, name) ? UNIT_COSTS[name] : undefined
    if (rate && thousands === undefined) rates[rate] = perMillion(usd)
    else if (rate) above.push([name, Number(thousands) * 1000, { [rate]: perMillion(usd) }])
    else if (unit) units.push([name, { [unit]: perUnit(usd) }])
    else if (!isSecond(name)) unknown.push(name)
  }
  const hasTokens = Object.keys(rates).length > 0
  const perSecond = SECOND_COSTS.map(name => costs.get(name)).find(usd => usd !== undefined)
  if (perSecond !== undefined) rates.per_second = perUnit(perSecond)
  if (!hasTokens) Object.assign(rates, ...units.map(([, unitRates]) => unitRates))
  const omitted = [...unknown, ...(hasTokens ? units : above).map(([name]) => name)]
  const tiers = hasTokens ? tiersOf(above) : []
  return {
    price: Object.keys(rates).length > 0 ? { ...rates, ...(tiers.length > 0 && { tiers }) } : undefined,
    omitted: omitted.filter(name => costs.get(name) !== 0),
  }
}

function tiersOf(above: readonly (readonly [name: string, over: number, rates: Rates])[]) {
  const tiers = new Map<number, Rates>()
  for (const [, over, rates] of above) tiers.set(over, { ...tiers.get(over), ...rates })
  return [...tiers].sort(([a], [b]) => a - b).map(([over, rates]) => ({ input_over: over, ...rates }))
}
