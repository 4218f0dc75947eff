/** Rates of tokens. The API presents them in USD per million tokens. */
export const TOKEN_RATES = [
  'input',
  'output',
  'cached_input',
  'cache_write',
  'cache_write_1h',
  'reasoning',
  'audio_input',
  'audio_output',
  'image_input',
  'image_output',
] as const
export type TokenRate = (typeof TOKEN_RATES)[number]

/** Rates of other units. The API presents them in USD per unit. */
export const UNIT_RATES = [
  'image',
  'per_call',
  'per_second',
  'per_minute',
  'per_character',
  'per_search',
] as const
export type UnitRate = (typeof UNIT_RATES)[number]

/** The rates that the API presents side by side. */
export const RATES = [...TOKEN_RATES, ...UNIT_RATES] as const

/** Tools that a provider runs itself, by their names in the API: `tools: {"web_search": 0.01}`. */
export const TOOLS = ['web_search', 'file_search', 'code_interpreter', 'image_generation'] as const
export type ToolName = (typeof TOOLS)[number]

/** The rate of one call of each tool. Web searches and search units of a rerank share a rate: no model has both. */
export const TOOL_RATES = {
  web_search: 'per_search',
  file_search: 'file_search',
  code_interpreter: 'code_interpreter',
  image_generation: 'image_generation',
} as const satisfies Record<ToolName, UnitRate | ToolName>
export type ToolRate = (typeof TOOL_RATES)[ToolName]

/** Tools whose rate is only in `tools`. The rate of web search is also `per_search`. */
export const TOOLS_ALONE = [
  'file_search',
  'code_interpreter',
  'image_generation',
] as const satisfies readonly ToolName[]

export type RateName = TokenRate | UnitRate | ToolRate

/** Picodollars per token or unit. An absent rate falls back to another; a rate of 0 is free. */
export type Rates = { readonly [name in RateName]?: number }

/**
 * The maximum rate: 1,000 USD per unit. A JSON number carries fifteen digits exactly, so the API returns every rate as it
 * was sent.
 */
export const MAX_RATE_PICOS = 1e15

// USD per million tokens and USD per unit, as powers of ten of picodollars per token or unit.
const TOKEN_DIGITS = 6
const UNIT_DIGITS = 12

const isTokenRate = (name: RateName): name is TokenRate => (TOKEN_RATES as readonly string[]).includes(name)
export const digitsOf = (name: RateName): number => (isTokenRate(name) ? TOKEN_DIGITS : UNIT_DIGITS)

/** A rate in the dollars of the API; exact, see MAX_RATE_PICOS. */
export const rateUsd = (name: RateName, picos: number): number => picos / 10 ** digitsOf(name)

export const isPerToken = (rates: Rates): boolean => TOKEN_RATES.some(name => rates[name] !== undefined)
