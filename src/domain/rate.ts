/** What a token can be charged as. The API tells these in USD per million tokens. */
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

/** What else can be charged. The API tells these in USD per unit. */
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

/** Tools that a provider runs itself, by the names of their prices in the API: `tools: {"web_search": 0.01}`. */
export const TOOLS = ['web_search', 'file_search', 'code_interpreter', 'image_generation'] as const
export type ToolName = (typeof TOOLS)[number]

/** The rate of one call of each tool. A web search and a search unit of a rerank share one: no model sells both. */
export const TOOL_RATES = {
  web_search: 'per_search',
  file_search: 'file_search',
  code_interpreter: 'code_interpreter',
  image_generation: 'image_generation',
} as const satisfies Record<ToolName, UnitRate | ToolName>
export type ToolRate = (typeof TOOL_RATES)[ToolName]

/** Tools whose rate stands in `tools` alone: that of a web search is also `per_search`. */
export const TOOLS_ALONE = [
  'file_search',
  'code_interpreter',
  'image_generation',
] as const satisfies readonly ToolName[]

export type RateName = TokenRate | UnitRate | ToolRate

/** Picodollars a token or unit. An absent rate is not stated; a rate of 0 is stated to be free. */
export type Rates = { readonly [name in RateName]?: number }

/**
 * The dearest rate: 1,000 USD a unit. One request is refused above 2^53 picodollars (9,007 USD) anyway, and fifteen
 * digits are what a JSON number carries exactly, so a rate comes back from the API as it went in.
 */
export const MAX_RATE_PICOS = 1e15

// USD per million tokens and USD per unit, as powers of ten above a picodollar a token or unit.
const TOKEN_DIGITS = 6
const UNIT_DIGITS = 12

const isTokenRate = (name: RateName): name is TokenRate => (TOKEN_RATES as readonly string[]).includes(name)
export const digitsOf = (name: RateName): number => (isTokenRate(name) ? TOKEN_DIGITS : UNIT_DIGITS)

/** Dollars of the API for a rate; exact, see MAX_RATE_PICOS. */
export const rateUsd = (name: RateName, picos: number): number => picos / 10 ** digitsOf(name)

export const isPerToken = (rates: Rates): boolean => TOKEN_RATES.some(name => rates[name] !== undefined)
