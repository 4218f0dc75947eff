import type { JsonObject } from '../../../domain/json-object.ts'
import type { PriceInput } from '../../../domain/price.ts'
import type { TokenRate, UnitRate } from '../../../domain/rate.ts'

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

/** Prices take six decimals per million tokens, and twelve per unit. */
const TOKEN_DIGITS = 6
const UNIT_DIGITS = 12

type Rates = { [name in TokenRate | UnitRate]?: number }

export const isCost = (name: string): boolean => /(^|_)cost(_|$)/.test(name)

const usdOf = (value: unknown): number | undefined => {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  return typeof number === 'number' && Number.isFinite(number) && number >= 0 ? number : undefined
}

const perMillion = (usd: number) => Number((usd * 1_000_000).toFixed(TOKEN_DIGITS))
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
  const tiers = new Map<number, Rates>()
  const omitted: string[] = []
  const units: [string, UnitRate, number][] = []
  for (const [name, usd] of costs) {
    const [, base = name, thousands] = ABOVE.exec(name) ?? []
    const rate = Object.hasOwn(TOKEN_COSTS, base) ? TOKEN_COSTS[base] : undefined
    const unit = Object.hasOwn(UNIT_COSTS, name) ? UNIT_COSTS[name] : undefined
    if (rate && thousands !== undefined) {
      const over = Number(thousands) * 1000
      tiers.set(over, { ...tiers.get(over), [rate]: perMillion(usd) })
    } else if (rate) Object.assign(rates, { [rate]: perMillion(usd) })
    else if (unit) units.push([name, unit, usd])
    else if (!(SECOND_COSTS as readonly string[]).includes(name) && usd > 0) omitted.push(name)
  }
  const hasTokens = Object.keys(rates).length > 0
  for (const [name, unit, usd] of units)
    if (!hasTokens) Object.assign(rates, { [unit]: perUnit(usd) })
    else if (usd > 0) omitted.push(name)
  const second = SECOND_COSTS.map(name => costs.get(name)).find(usd => usd !== undefined)
  if (second !== undefined) rates.per_second = perUnit(second)
  if (!hasTokens && tiers.size > 0)
    omitted.push(...[...costs.keys()].filter(name => ABOVE.test(name) && (costs.get(name) ?? 0) > 0))
  const price = {
    ...rates,
    ...(hasTokens &&
      tiers.size > 0 && {
        tiers: [...tiers].sort(([a], [b]) => a - b).map(([over, tier]) => ({ input_over: over, ...tier })),
      }),
  }
  return { price: Object.keys(rates).length > 0 ? price : undefined, omitted: [...new Set(omitted)] }
}
