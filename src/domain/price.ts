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
import { isUsual, SERVICES } from './service.ts'

/** Above `inputOver` prompt tokens, cached ones included, every token of the request costs these rates. */
export type Tier = { readonly inputOver: number; readonly rates: Rates }

/** What a picture or video is asked to be, how a chat is asked to be served, and how it is asked to search the web. */
export const CONDITIONS = ['size', 'quality', 'resolution', ...SERVICES, 'web_search'] as const
export type Condition = (typeof CONDITIONS)[number]
export type When = { readonly [name in Condition]?: string }

export type Variant = { readonly when: When; readonly rates: Rates }

/**
 * What one model costs. A tier or variant states only what differs: its rates are laid over `rates`, never over one another.
 * `per_second` or `per_minute` beside token rates is for answers that tell their length instead of their tokens; never both.
 * Rates of tools are charged by the call, beside tokens or beside `per_call`.
 */
export type Price = {
  readonly rates: Rates
  /** Ascending by `inputOver`; absent rather than empty. */
  readonly tiers?: readonly Tier[]
  readonly variants?: readonly Variant[]
  readonly maxOutputTokens?: number
  readonly unitNote?: string
}

/** What a call of each tool costs that the provider runs, in USD. */
export type ToolFields = { readonly [name in ToolName]?: number }

/** Rates as the API presents them, in USD; `per_search` of a chat is also `tools.web_search`. */
export type RateFields = { readonly [name in (typeof RATES)[number]]?: number } & {
  readonly tools?: ToolFields
}

/** A price as the API tells it. */
export type PriceFields = RateFields & {
  readonly tiers?: readonly (RateFields & { readonly input_over: number })[]
  readonly variants?: readonly (RateFields & { readonly when: When })[]
  readonly max_output_tokens?: number
  readonly unit_note?: string
}

type Given<Fields> = { readonly [name in keyof Fields]?: Fields[name] | null | undefined }
export type RateInput = Given<Omit<RateFields, 'tools'>> & {
  readonly per_image?: number | null | undefined
  readonly tools?: Given<ToolFields> | null | undefined
}

/**
 * A price as the API takes it: null means absent, `per_image` is another name of `image`, and `per_search` of
 * `tools.web_search`.
 */
export type PriceInput = RateInput & {
  readonly tiers?: readonly (RateInput & { readonly input_over: number })[] | null | undefined
  readonly variants?: readonly (RateInput & { readonly when: Given<When> })[] | null | undefined
  readonly max_output_tokens?: number | null | undefined
  readonly unit_note?: string | null | undefined
}

export type PriceFault = { readonly path: string; readonly message: string }
export type PriceReading = { readonly price: Price } | { readonly faults: readonly PriceFault[] }

/** 0 per token, 1 for everything else. */
export const quotaType = (price: Price): 0 | 1 => (isPerToken(price.rates) ? 0 : 1)

/** From the API's dollars to a price, or everything that is wrong with them. */
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
  // Rules about the whole would only repeat in other words what is wrong with a part.
  if (faults.length === 0) checkWhole(price, fault)
  return faults.length > 0 ? { faults } : { price }
}

/** Decimals of a factor that a price is multiplied by. */
export const FACTOR_DIGITS = 6

/** Every rate times a factor, to the nearest picodollar; undefined where one would go beyond what a rate can be. */
export function multiplied(price: Price, factor: number): Price | undefined {
  const parts = scaled(factor, FACTOR_DIGITS)
  if (parts === undefined) return undefined
  let isTooDear = false
  const times = (rates: Rates): Rates =>
    Object.fromEntries(
      Object.entries(rates).map(([name, picos]) => {
        const whole = 10n ** BigInt(FACTOR_DIGITS)
        const product = Number((BigInt(picos) * BigInt(parts) + whole / 2n) / whole)
        isTooDear ||= product > MAX_RATE_PICOS
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
  return isTooDear ? undefined : after
}

/** The same price in the API's dollars: `readPrice` gives it back unchanged. */
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
 * The same for readers: `tools` also has the web search that `per_search` is the price of. A model that is sold by the
 * search alone is a reranker, which runs no tools.
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

type TellFault = (path: string, message: string) => void

function readRates(input: RateInput, path: string, fault: TellFault): Rates {
  const rates: { [name in RateName]?: number } = {}
  const image = input.image ?? input.per_image
  if (input.per_image != null && input.per_image !== image) {
    fault(`${path}per_image`, 'is another name of image and must be the same')
  }
  const search = input.tools?.web_search
  if (search != null && input.per_search != null && input.per_search !== search) {
    fault(`${path}per_search`, 'is another name of tools.web_search and must be the same')
  }
  const read = (name: RateName, field: string, usd: number | null | undefined) => {
    const picos = usd == null ? undefined : readRate(name, usd, path + field, fault)
    if (picos !== undefined) rates[name] = picos
  }
  for (const name of RATES) read(name, name, name === 'image' ? image : input[name])
  for (const name of TOOLS) read(TOOL_RATES[name], `tools.${name}`, input.tools?.[name])
  return rates
}

function readRate(name: RateName, usd: number, path: string, fault: TellFault): number | undefined {
  const digits = digitsOf(name)
  const most = MAX_RATE_PICOS / 10 ** digits
  if (!(usd >= 0 && usd <= most)) {
    fault(path, `must be 0 to ${most} USD`)
    return undefined
  }
  const picos = scaled(usd, digits)
  if (picos === undefined) fault(path, `has more than ${digits} decimals`)
  return picos
}

function readTier(input: RateInput & { readonly input_over: number }, path: string, fault: TellFault): Tier {
  const rates = readRates(input, path, fault)
  if (!Number.isSafeInteger(input.input_over) || input.input_over < 0) {
    fault(`${path}input_over`, 'must be a whole number of tokens')
  }
  for (const name of UNIT_RATES) {
    if (rates[name] !== undefined) fault(path + name, 'is no price of tokens, so it has no tiers')
  }
  for (const name of TOOLS) {
    if (input.tools?.[name] != null)
      fault(`${path}tools.${name}`, 'is no price of tokens, so it has no tiers')
  }
  return { inputOver: input.input_over, rates }
}

function readVariant(
  input: RateInput & { readonly when: Given<When> },
  path: string,
  fault: TellFault,
): Variant {
  const rates = readRates(input, path, fault)
  const when: { [name in Condition]?: string } = {}
  for (const name of CONDITIONS) {
    const wanted = input.when[name]
    if (wanted === '') fault(`${path}when.${name}`, 'must not be empty')
    if (wanted != null) when[name] = wanted
  }
  for (const name of SERVICES) {
    const wanted = when[name]
    if (wanted === undefined) continue
    if (isUsual(name, wanted)) fault(`${path}when.${name}`, 'is what the price outside variants is for')
    if (wanted !== wanted.toLowerCase()) fault(`${path}when.${name}`, 'must be in lower case')
  }
  if (Object.keys(when).length === 0) fault(`${path}when`, `needs at least one of ${CONDITIONS.join(', ')}`)
  return { when, rates }
}

const isEmpty = (rates: Rates): boolean => Object.keys(rates).length === 0

/** Rules that no part breaks alone. */
function checkWhole({ rates, tiers = [], variants = [] }: Price, fault: TellFault): void {
  if (isEmpty(rates)) {
    // Also beside tiers and variants: a request that fits none of them must still have a price.
    fault('', 'needs at least one price outside tiers and variants')
    return
  }
  if (tiers.length > 0 && !isPerToken(rates)) fault('tiers', 'need a price of tokens beside them')
  for (const [index, tier] of tiers.entries()) {
    if (isEmpty(tier.rates)) fault(`tiers.${index}`, 'needs a price')
    const before = tiers[index - 1]
    if (before && tier.inputOver <= before.inputOver) {
      fault(`tiers.${index}.input_over`, 'must be above the one before')
    }
  }
  checkTogether(rates, '', fault)
  const seen = new Set<string>()
  for (const [index, variant] of variants.entries()) {
    if (isEmpty(variant.rates)) fault(`variants.${index}`, 'needs a price')
    const condition = JSON.stringify(CONDITIONS.map(name => variant.when[name]))
    if (seen.has(condition)) fault(`variants.${index}.when`, 'repeats another variant')
    seen.add(condition)
    checkTogether({ ...rates, ...variant.rates }, `variants.${index}.`, fault)
  }
}

/** The tools of a call may cost extra; everything else is in its price. */
const isBesideCall = (name: string): boolean =>
  name === 'per_call' || (Object.values(TOOL_RATES) as readonly string[]).includes(name)

function checkTogether(rates: Rates, path: string, fault: TellFault): void {
  if (rates.per_call !== undefined && Object.keys(rates).some(name => !isBesideCall(name))) {
    fault(`${path}per_call`, 'stands alone: a call has one price')
  }
  if (rates.per_second !== undefined && rates.per_minute !== undefined) {
    fault(`${path}per_minute`, 'and per_second would charge the same second twice')
  }
}
