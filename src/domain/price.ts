import { scaled } from './money.ts'
import {
  digitsOf,
  isPerToken,
  MAX_RATE_PICOS,
  RATES,
  type RateName,
  type Rates,
  rateUsd,
  TOOL_RATES,
  TOOLS,
  TOOLS_ALONE,
  type ToolName,
  UNIT_RATES,
} from './rate.ts'
import { isDefault, SERVICES } from './service.ts'

/** If the prompt has more than `inputOver` tokens, cached ones included, these rates apply to the whole request. */
export type Tier = { readonly inputOver: number; readonly rates: Rates }

/** Conditions of variants: properties of the requested image or video, services of a chat, and the kind of web search. */
export const CONDITIONS = ['size', 'quality', 'resolution', ...SERVICES, 'web_search'] as const
export type Condition = (typeof CONDITIONS)[number]
export type When = { readonly [name in Condition]?: string }

export type Variant = { readonly when: When; readonly rates: Rates }

/**
 * The price of one model. The rates of a tier or variant override `rates`, never one another. With token rates,
 * `per_second` or `per_minute` applies to responses that report their length instead of tokens. Tools are charged by the
 * call, in addition to tokens or to `per_call`.
 */
export type Price = {
  readonly rates: Rates
  /** Ascending by `inputOver`; absent rather than empty. */
  readonly tiers?: readonly Tier[]
  readonly variants?: readonly Variant[]
  readonly maxOutputTokens?: number
  readonly unitNote?: string
}

/** The price in USD of one call of each tool that the provider runs. */
export type ToolFields = { readonly [name in ToolName]?: number }

/** Rates as the API presents them, in USD; `per_search` of a chat is also `tools.web_search`. */
export type RateFields = { readonly [name in (typeof RATES)[number]]?: number } & {
  readonly tools?: ToolFields
}

/** A price as the API presents it. */
export type PriceFields = RateFields & {
  readonly tiers?: readonly (RateFields & { readonly input_over: number })[]
  readonly variants?: readonly (RateFields & { readonly when: When })[]
  readonly max_output_tokens?: number
  readonly unit_note?: string
}

type Nullable<Fields> = { readonly [name in keyof Fields]?: Fields[name] | null | undefined }
export type RateInput = Nullable<Omit<RateFields, 'tools'>> & {
  readonly per_image?: number | null | undefined
  readonly tools?: Nullable<ToolFields> | null | undefined
}

/**
 * A price as the API accepts it: null means absent, `per_image` is an alias of `image`, and `per_search` of
 * `tools.web_search`.
 */
export type PriceInput = RateInput & {
  readonly tiers?: readonly (RateInput & { readonly input_over: number })[] | null | undefined
  readonly variants?: readonly (RateInput & { readonly when: Nullable<When> })[] | null | undefined
  readonly max_output_tokens?: number | null | undefined
  readonly unit_note?: string | null | undefined
}

export type PriceFault = { readonly path: string; readonly message: string }
export type PriceReading = { readonly price: Price } | { readonly faults: readonly PriceFault[] }

/** 0 per token, 1 for everything else. */
export const quotaType = (price: Price): 0 | 1 => (isPerToken(price.rates) ? 0 : 1)

/** Reads a price in the API's dollars, or reports all its faults. */
export function readPrice(input: PriceInput): PriceReading {
  const faults: PriceFault[] = []
  const fault = (path: string, message: string) => void faults.push({ path, message })
  const rates = readRates(input, '', fault)
  const tiers = (input.tiers ?? []).map((tier, index) => readTier(tier, `tiers.${index}.`, fault))
  const variants = (input.variants ?? []).map((variant, index) =>
    readVariant(variant, `variants.${index}.`, fault),
  )
  const { max_output_tokens: maxOutputTokens, unit_note: unitNote } = input
  if (maxOutputTokens != null && !(Number.isSafeInteger(maxOutputTokens) && maxOutputTokens > 0)) {
    fault('max_output_tokens', 'must be a whole number above 0')
  }
  const price: Price = {
    rates,
    ...(tiers.length > 0 && { tiers }),
    ...(variants.length > 0 && { variants }),
    ...(maxOutputTokens != null && { maxOutputTokens }),
    ...(unitNote && { unitNote }),
  }
  // After errors in single fields, the checks of the whole price would only report the same errors again.
  if (faults.length === 0) checkWhole(price, fault)
  return faults.length > 0 ? { faults } : { price }
}

/** The number of decimals that a price factor may have. */
export const FACTOR_DIGITS = 6

/** Every rate times a factor, to the nearest picodollar; undefined if a rate would exceed the maximum. */
export function multiplyPrice(price: Price, factor: number): Price | undefined {
  const parts = scaled(factor, FACTOR_DIGITS)
  if (parts === undefined) return undefined
  let exceedsMaxRate = false
  const times = (rates: Rates): Rates =>
    Object.fromEntries(
      Object.entries(rates).map(([name, picos]) => {
        const whole = 10n ** BigInt(FACTOR_DIGITS)
        const product = Number((BigInt(picos) * BigInt(parts) + whole / 2n) / whole)
        exceedsMaxRate ||= product > MAX_RATE_PICOS
        return [name, product]
      }),
    )
  const { tiers, variants } = price
  const after = {
    ...price,
    rates: times(price.rates),
    ...(tiers && { tiers: tiers.map(tier => ({ ...tier, rates: times(tier.rates) })) }),
    ...(variants && { variants: variants.map(variant => ({ ...variant, rates: times(variant.rates) })) }),
  }
  return exceedsMaxRate ? undefined : after
}

/** The price in the API's dollars. `readPrice` returns the same price again. */
export function priceFields({ rates, tiers, variants, maxOutputTokens, unitNote }: Price): PriceFields {
  return {
    ...rateFields(rates),
    ...(tiers && {
      tiers: tiers.map(tier => ({ input_over: tier.inputOver, ...rateFields(tier.rates) })),
    }),
    ...(variants && {
      variants: variants.map(variant => ({ when: variant.when, ...rateFields(variant.rates) })),
    }),
    ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
    ...(unitNote !== undefined && { unit_note: unitNote }),
  }
}

/**
 * The price for display: `tools` also has `web_search`, whose price is `per_search`. A model priced by the search alone is a
 * reranker, which runs no tools.
 */
export function presentedPrice(price: Price): PriceFields {
  const fields = priceFields(price)
  if (!isPerToken(price.rates) && price.rates.per_call === undefined) return fields
  const variants = fields.variants?.map(withWebSearch)
  return { ...withWebSearch(fields), ...(variants && { variants }) }
}

const withWebSearch = <Fields extends RateFields>(fields: Fields): Fields =>
  fields.per_search === undefined
    ? fields
    : { ...fields, tools: { web_search: fields.per_search, ...fields.tools } }

function rateFields(rates: Rates): RateFields {
  const fields: { -readonly [name in keyof RateFields]: RateFields[name] } = {}
  for (const name of RATES) {
    const picos = rates[name]
    if (picos !== undefined) fields[name] = rateUsd(name, picos)
  }
  const tools: { [name in ToolName]?: number } = {}
  for (const name of TOOLS_ALONE) {
    const picos = rates[name]
    if (picos !== undefined) tools[name] = rateUsd(name, picos)
  }
  return Object.keys(tools).length > 0 ? { ...fields, tools } : fields
}

type ReportError = (path: string, message: string) => void

function readRates(input: RateInput, path: string, fault: ReportError): Rates {
  const rates: { [name in RateName]?: number } = {}
  const image = input.image ?? input.per_image
  if (input.per_image != null && input.per_image !== image) {
    fault(`${path}per_image`, 'is an alias of image and must have the same value')
  }
  const search = input.tools?.web_search
  if (search != null && input.per_search != null && input.per_search !== search) {
    fault(`${path}per_search`, 'is an alias of tools.web_search and must have the same value')
  }
  const read = (name: RateName, field: string, usd: number | null | undefined) => {
    const picos = usd == null ? undefined : readRate(name, usd, path + field, fault)
    if (picos !== undefined) rates[name] = picos
  }
  for (const name of RATES) read(name, name, name === 'image' ? image : input[name])
  for (const name of TOOLS) read(TOOL_RATES[name], `tools.${name}`, input.tools?.[name])
  return rates
}

function readRate(name: RateName, usd: number, path: string, fault: ReportError): number | undefined {
  const digits = digitsOf(name)
  const maxUsd = MAX_RATE_PICOS / 10 ** digits
  if (!(usd >= 0 && usd <= maxUsd)) {
    fault(path, `must be 0 to ${maxUsd} USD`)
    return undefined
  }
  const picos = scaled(usd, digits)
  if (picos === undefined) fault(path, `has more than ${digits} decimals`)
  return picos
}

function readTier(
  input: RateInput & { readonly input_over: number },
  path: string,
  fault: ReportError,
): Tier {
  const rates = readRates(input, path, fault)
  if (!Number.isSafeInteger(input.input_over) || input.input_over < 0) {
    fault(`${path}input_over`, 'must be a whole number of tokens')
  }
  for (const name of UNIT_RATES) {
    if (rates[name] !== undefined) fault(path + name, 'is not a token price, so it cannot be in a tier')
  }
  for (const name of TOOLS) {
    if (input.tools?.[name] != null)
      fault(`${path}tools.${name}`, 'is not a token price, so it cannot be in a tier')
  }
  return { inputOver: input.input_over, rates }
}

function readVariant(
  input: RateInput & { readonly when: Nullable<When> },
  path: string,
  fault: ReportError,
): Variant {
  const rates = readRates(input, path, fault)
  const when: { [name in Condition]?: string } = {}
  for (const name of CONDITIONS) {
    const value = input.when[name]
    if (value === '') fault(`${path}when.${name}`, 'must not be empty')
    if (value != null) when[name] = value
  }
  for (const name of SERVICES) {
    const value = when[name]
    if (value === undefined) continue
    if (isDefault(name, value))
      fault(`${path}when.${name}`, 'is the default, which the price outside variants applies to')
    if (value !== value.toLowerCase()) fault(`${path}when.${name}`, 'must be in lower case')
  }
  if (Object.keys(when).length === 0) fault(`${path}when`, `needs at least one of ${CONDITIONS.join(', ')}`)
  return { when, rates }
}

const isEmpty = (rates: Rates): boolean => Object.keys(rates).length === 0

/** Checks the combination of the parts of a price. */
function checkWhole({ rates, tiers = [], variants = [] }: Price, fault: ReportError): void {
  if (isEmpty(rates)) {
    // Required even with tiers and variants: a request may match none of them.
    fault('', 'needs at least one price outside tiers and variants')
    return
  }
  if (tiers.length > 0 && !isPerToken(rates)) fault('tiers', 'need a token price outside the tiers')
  for (const [index, tier] of tiers.entries()) {
    if (isEmpty(tier.rates)) fault(`tiers.${index}`, 'needs a price')
    const before = tiers[index - 1]
    if (before && tier.inputOver <= before.inputOver) {
      fault(`tiers.${index}.input_over`, 'must be greater than that of the previous tier')
    }
  }
  checkCombination(rates, '', fault)
  const earlier = new Set<string>()
  for (const [index, variant] of variants.entries()) {
    if (isEmpty(variant.rates)) fault(`variants.${index}`, 'needs a price')
    const condition = JSON.stringify(CONDITIONS.map(name => variant.when[name]))
    if (earlier.has(condition)) fault(`variants.${index}.when`, 'is the same as that of another variant')
    earlier.add(condition)
    checkCombination({ ...rates, ...variant.rates }, `variants.${index}.`, fault)
  }
}

/** Only tools may be charged in addition to `per_call`. */
const mayAccompanyPerCall = (name: string): boolean =>
  name === 'per_call' || (Object.values(TOOL_RATES) as readonly string[]).includes(name)

function checkCombination(rates: Rates, path: string, fault: ReportError): void {
  if (rates.per_call !== undefined && Object.keys(rates).some(name => !mayAccompanyPerCall(name))) {
    fault(`${path}per_call`, 'cannot be combined with other prices, except of tools')
  }
  if (rates.per_second !== undefined && rates.per_minute !== undefined) {
    fault(`${path}per_minute`, 'cannot be combined with per_second: the same second would be charged twice')
  }
}
