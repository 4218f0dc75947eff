import { nanosFromPicos, PICOS_PER_NANO, safe } from './money.ts'
import { CONDITIONS, type Condition, type Price, type Tier, type Variant, type When } from './price.ts'
import {
  isPerToken,
  type RateName,
  type Rates,
  type TokenRate,
  type ToolRate,
  type UnitRate,
} from './rate.ts'
import { SERVICES } from './service.ts'
import {
  type Count,
  type Counts,
  EMPTY,
  INPUT_COUNTS,
  OUTPUT_COUNTS,
  type ToolCount,
  totalInput,
  totalOutput,
  type Usage,
} from './usage.ts'

const TOKEN_COUNTS = [...INPUT_COUNTS, ...OUTPUT_COUNTS] as const
type TokenCount = (typeof TOKEN_COUNTS)[number]

/** The rates of each kind of token, in order of precedence: the first that the price has applies. Without any it is free. */
const RATES_OF = {
  input: ['input'],
  cachedInput: ['cached_input', 'input'],
  cacheWrite: ['cache_write', 'input'],
  cacheWrite1h: ['cache_write_1h', 'cache_write', 'input'],
  audioInput: ['audio_input', 'input'],
  imageInput: ['image_input', 'input'],
  output: ['output'],
  reasoning: ['reasoning', 'output'],
  audioOutput: ['audio_output', 'output'],
  imageOutput: ['image_output', 'output'],
} as const satisfies Record<TokenCount, readonly TokenRate[]>

const UNITS = [
  ['images', 'image'],
  ['characters', 'per_character'],
  ['searches', 'per_search'],
  ['fileSearches', 'file_search'],
  ['codeInterpreterCalls', 'code_interpreter'],
  ['imageGenerationCalls', 'image_generation'],
  ['calls', 'per_call'],
] as const satisfies readonly (readonly [Count, UnitRate | ToolRate])[]

const SECONDS_PER_MINUTE = 60

/** `count` × `rate` picodollars, divided by `per`. */
type Charge = { readonly count: number; readonly rate: number; readonly per: number }

/**
 * The cost of a usage in nanodollars: exact, rounded up once at the end. Throws a RangeError above 2^53. `priceOf` returns
 * the price of an inference that another model ran.
 */
export function cost(price: Price, usage: Usage, priceOf?: (model: string) => Price): number {
  return fastCost(price, usage) ?? exactCost(price, usage, priceOf)
}

/** The rate of each kind of token. */
type Tariff = { readonly [kind in TokenCount]: number }

const tariffs = new WeakMap<Price, Tariff>()

/** Cached: prices are immutable, and every request needs the tariff several times. */
function tariffOf(price: Price): Tariff {
  const cached = tariffs.get(price)
  if (cached) return cached
  const rates = TOKEN_COUNTS.map(kind => [kind, rateOf(price.rates, undefined, kind)])
  const tariff = Object.fromEntries(rates) as Tariff
  tariffs.set(price, tariff)
  return tariff
}

/**
 * The fast path for nearly every request: no tiers, no charge by length, far below 2^53. No term is negative, so if the sum
 * is a safe integer, no term was rounded. Undefined if the fast path does not apply.
 */
function fastCost(price: Price, usage: Usage): number | undefined {
  if (price.tiers !== undefined || usage.seconds > 0 || usage.inferences !== undefined) return undefined
  const tariff = tariffOf(price)
  const { image = 0, per_character = 0, per_search = 0, per_call = 0 } = price.rates
  const { file_search = 0, code_interpreter = 0, image_generation = 0 } = price.rates
  const picos =
    usage.input * tariff.input +
    usage.cachedInput * tariff.cachedInput +
    usage.cacheWrite * tariff.cacheWrite +
    usage.cacheWrite1h * tariff.cacheWrite1h +
    usage.audioInput * tariff.audioInput +
    usage.imageInput * tariff.imageInput +
    usage.output * tariff.output +
    usage.reasoning * tariff.reasoning +
    usage.audioOutput * tariff.audioOutput +
    usage.imageOutput * tariff.imageOutput +
    usage.images * image +
    usage.characters * per_character +
    usage.searches * per_search +
    usage.fileSearches * file_search +
    usage.codeInterpreterCalls * code_interpreter +
    usage.imageGenerationCalls * image_generation +
    usage.calls * per_call
  return Number.isSafeInteger(picos) ? nanosFromPicos(picos) : undefined
}

const exactCost = (price: Price, usage: Usage, priceOf?: (model: string) => Price): number =>
  total(usageLines(price, usage, priceOf))

/** The cost of one kind of usage. */
export type CostLine = Charge & { readonly kind: Count; readonly rateName: RateName }

/** The cost lines of a whole request with its further inferences. Each inference has the tier of its own prompt. */
export const usageLines = (
  price: Price,
  usage: Usage,
  priceOf: (model: string) => Price = () => price,
): readonly CostLine[] => [
  ...costLines(price, usage),
  ...(usage.inferences ?? []).flatMap(({ counts, model }) =>
    costLines(model === undefined ? price : priceOf(model), counts),
  ),
]

/** The cost by kind. Every line is exact; the sum is rounded up once. */
function costLines(price: Price, usage: Counts): readonly CostLine[] {
  const { rates } = price
  const tier = tierAt(price, totalInput(usage))
  const lines = unitLines(rates, usage)
  for (const kind of TOKEN_COUNTS) {
    if (usage[kind] === 0) continue
    const [rateName, rate] = statedRate(rates, tier, kind)
    lines.push({ kind, rateName, count: usage[kind], rate, per: 1 })
  }
  if (isChargedByLength(rates, usage)) lines.push(lengthLine(rates, usage.seconds))
  return lines
}

const applyVariant = (price: Price, variant: Variant): Price => ({
  ...price,
  rates: { ...price.rates, ...variant.rates },
  ...(price.tiers && hasService(variant) && { tiers: tiersOfService(price.rates, price.tiers, variant) }),
})

const hasService = ({ when }: Variant): boolean => SERVICES.some(name => when[name] !== undefined)

/**
 * Applies a service to every tier: vendors multiply all their rates by the same factor. Without a base rate there is no
 * factor, and the higher rate applies.
 */
const tiersOfService = (baseRates: Rates, tiers: readonly Tier[], variant: Variant): readonly Tier[] =>
  tiers.map(({ inputOver, rates }) => ({
    inputOver,
    rates: Object.fromEntries(
      (Object.entries(rates) as [RateName, number][]).map(([name, rate]) => {
        const serviceRate = variant.rates[name]
        if (serviceRate === undefined) return [name, rate]
        const baseRate = baseRates[name] ?? 0
        const scaledRate = () => Number(ceilDivide(BigInt(rate) * BigInt(serviceRate), BigInt(baseRate)))
        return [name, baseRate > 0 ? scaledRate() : Math.max(rate, serviceRate)]
      }),
    ),
  }))

/**
 * The requested conditions without the services that the price has no variant for. Two services at once need a variant
 * that names both, because the price of the combination does not follow from the price of each. A variant for another
 * size or resolution does not count.
 */
export function grantedConditions({ variants = [] }: Price, requested: When): When {
  if (SERVICES.every(name => requested[name] === undefined)) return requested
  const rest: When = Object.fromEntries(
    CONDITIONS.filter(name => !isService(name)).flatMap(name =>
      requested[name] === undefined ? [] : [[name, requested[name]]],
    ),
  )
  let services: When = {}
  for (const name of SERVICES) {
    const value = requested[name]
    if (value === undefined) continue
    const more: When = { ...services, [name]: value }
    if (variants.some(variant => namesServices(variant, more) && isMet(variant, { ...rest, ...more })))
      services = more
  }
  return { ...rest, ...services }
}

/** Whether a variant is for exactly these services. */
const namesServices = ({ when }: Variant, services: When): boolean =>
  SERVICES.every(name => when[name] === services[name])

const isMet = ({ when }: Variant, conditions: When): boolean =>
  CONDITIONS.every(name => when[name] === undefined || isSame(when[name], conditions[name] ?? ''))

const isService = (name: Condition): boolean => (SERVICES as readonly string[]).includes(name)

const SIDES = /^(\d+)\s*[x×*]\s*(\d+)$/

/** 720P and 720p are the same condition, and so are 1024*1024, 01024x1024 and 1024x1024 in any digits. */
const normalize = (condition: string): string =>
  condition
    .normalize('NFKC')
    .trim()
    .toLowerCase()
    .replace(SIDES, (_, width: string, height: string) => `${Number(width)}x${Number(height)}`)

const isSame = (a: string, b: string): boolean => a === b || normalize(a) === normalize(b)

/**
 * The price for the requested conditions: the matching variant with the most conditions, else the base price. Variants for
 * the granted services take precedence.
 */
export function priceAt(price: Price, requested: When): Price {
  if (isUnconditional(requested)) return basePrice(price)
  const conditions = grantedConditions(price, requested)
  const matching = (price.variants ?? []).filter(variant => isMet(variant, conditions))
  const [searchVariants, others] = splitSearchVariants(matching)
  const serviceVariants = others.filter(variant => namesServices(variant, servicesIn(conditions)))
  return [
    mostSpecific(serviceVariants.length > 0 ? serviceVariants : others),
    mostSpecific(searchVariants),
  ].reduce<Price>(
    (result, variant) => (variant === undefined ? result : applyVariant(result, variant)),
    basePrice(price),
  )
}

const servicesIn = (requested: When): When =>
  Object.fromEntries(
    SERVICES.flatMap(name => (requested[name] === undefined ? [] : [[name, requested[name]]])),
  )

/** Variants for web search change only the price of searches, so they combine with the other variants. */
const splitSearchVariants = (
  variants: readonly Variant[],
): readonly [searched: readonly Variant[], others: readonly Variant[]] => [
  variants.filter(({ when }) => when.web_search !== undefined),
  variants.filter(({ when }) => when.web_search === undefined),
]

/** The variant with the most conditions; the first of several. */
const mostSpecific = (variants: readonly Variant[]): Variant | undefined => {
  const size = ({ when }: Variant) => Object.keys(when).length
  return variants.reduce<Variant | undefined>(
    (most, each) => (most === undefined || size(each) > size(most) ? each : most),
    undefined,
  )
}

const isUnconditional = (requested: When): boolean => {
  for (const name in requested) if (requested[name as Condition] !== undefined) return false
  return true
}

const basePrices = new WeakMap<Price, Price>()

/** The price without its variants. Cached: most requests match no variant, and prices are immutable. */
function basePrice(price: Price): Price {
  const cached = basePrices.get(price)
  if (cached) return cached
  const { variants: _, ...withoutVariants } = price
  basePrices.set(price, withoutVariants)
  return withoutVariants
}

/** Conditions that apply only if the request contains them. */
const isOnRequestOnly = (name: Condition): boolean => name === 'web_search' || isService(name)

const NO_CONDITIONS: When = {}
const cachedPossiblePrices = new WeakMap<Price, readonly Price[]>()

/** Every price that may apply. The provider chooses the conditions that the request does not set, except services. */
export function possiblePrices(price: Price, requested: When = NO_CONDITIONS): readonly Price[] {
  if (price.variants === undefined) return [price]
  if (requested !== NO_CONDITIONS) return pricesOfOpenVariants(price, price.variants, requested)
  const cached = cachedPossiblePrices.get(price)
  if (cached) return cached
  const prices = pricesOfOpenVariants(price, price.variants, requested)
  cachedPossiblePrices.set(price, prices)
  return prices
}

function pricesOfOpenVariants(price: Price, variants: readonly Variant[], requested: When): readonly Price[] {
  const open = variants.filter(({ when }) =>
    CONDITIONS.every(
      name =>
        when[name] === undefined ||
        (requested[name] === undefined ? !isOnRequestOnly(name) : isSame(when[name], requested[name])),
    ),
  )
  const [searchVariants, others = []] = splitSearchVariants(open)
  const search = mostSpecific(searchVariants)
  const base = basePrice(price)
  const all = [base, ...others.map(variant => applyVariant(base, variant))]
  return search === undefined ? all : all.map(each => applyVariant(each, search))
}

/** The maximum usage of a request: input and output tokens, and other units, which default to 0. */
export type UsageBound = {
  readonly inputTokens: number
  readonly outputTokens: number
  /** Kinds of token that this request can never use. */
  readonly unreachable?: readonly TokenCount[]
} & { readonly [unit in 'calls' | 'characters' | 'seconds' | 'images' | ToolCount]?: number }

/** The highest input and output rates for prompts of more than `inputOver` and at most `inputTo` tokens. */
type Ceiling = {
  readonly inputOver: number
  readonly inputTo: number
  readonly input: number
  readonly output: number
}

const ALL_REACHABLE: readonly TokenCount[] = []
const ceilings = new WeakMap<Price, readonly Ceiling[]>()

function ceilingsOf({ rates, tiers = [] }: Price, unreachable: readonly TokenCount[]): Ceiling[] {
  // -1, so that an empty prompt is in the base tier, but not in a tier that begins at 0.
  const base: Tier = { inputOver: -1, rates: {} }
  const all = [base, ...tiers]
  return all.map((tier, index) => {
    const highestRate = (kinds: readonly TokenCount[]) =>
      Math.max(
        0,
        ...kinds.filter(kind => !unreachable.includes(kind)).map(kind => rateOf(rates, tier.rates, kind)),
      )
    return {
      inputOver: tier.inputOver,
      inputTo: all[index + 1]?.inputOver ?? Number.POSITIVE_INFINITY,
      input: highestRate(INPUT_COUNTS),
      output: highestRate(OUTPUT_COUNTS),
    }
  })
}

/** Cached: prices are immutable, and every request needs the ceilings. */
function cachedCeilings(price: Price): readonly Ceiling[] {
  const cached = ceilings.get(price)
  if (cached) return cached
  const computed = ceilingsOf(price, ALL_REACHABLE)
  ceilings.set(price, computed)
  return computed
}

/**
 * The maximum cost, in nanodollars, of any usage within the limits: every token is of the most expensive kind, and the
 * prompt is in the most expensive tier up to its length, which need not be the highest tier.
 */
export function bound(price: Price, limits: UsageBound): number {
  const { inputTokens, outputTokens, unreachable = ALL_REACHABLE, ...units } = limits
  const most: Counts = { ...EMPTY, ...units }
  const fixed = unitLines(price.rates, most)
  let highest = total([...fixed, lengthLine(price.rates, most.seconds)])
  const all = unreachable.length === 0 ? cachedCeilings(price) : ceilingsOf(price, unreachable)
  for (const { inputOver, inputTo, input, output } of all) {
    if (inputOver >= inputTokens) continue
    const inTier = total([
      ...fixed,
      { count: Math.min(inputTokens, inputTo), rate: input, per: 1 },
      { count: outputTokens, rate: output, per: 1 },
    ])
    highest = Math.max(highest, inTier)
  }
  return highest
}

/** The same for a request with one call and no units besides its tokens, as nearly every chat has. */
export function tokenBound(price: Price, inputTokens: number, outputTokens: number): number {
  const { per_call = 0 } = price.rates
  let highest = per_call
  for (const { inputOver, inputTo, input, output } of cachedCeilings(price)) {
    if (inputOver >= inputTokens) continue
    const picos = per_call + Math.min(inputTokens, inputTo) * input + outputTokens * output
    // As in `fastCost`: no term is negative, so a sum that is a safe integer was not rounded.
    if (!Number.isSafeInteger(picos)) return bound(price, { inputTokens, outputTokens, calls: 1 })
    if (picos > highest) highest = picos
  }
  return nanosFromPicos(highest)
}

function unitLines(rates: Rates, usage: Counts): CostLine[] {
  const lines: CostLine[] = []
  for (const [kind, rateName] of UNITS) {
    const rate = rates[rateName]
    if (rate !== undefined && usage[kind] > 0)
      lines.push({ kind, rateName, count: usage[kind], rate, per: 1 })
  }
  return lines
}

const hasTokens = (usage: Counts): boolean => totalInput(usage) + totalOutput(usage) > 0

/** With a token price, the length of an answer is charged only if the answer reports no tokens. */
const isChargedByLength = (rates: Rates, usage: Counts): boolean =>
  usage.seconds > 0 && !(isPerToken(rates) && hasTokens(usage))

const lengthLine = (rates: Rates, seconds: number): CostLine =>
  rates.per_minute === undefined
    ? { kind: 'seconds', rateName: 'per_second', count: seconds, rate: rates.per_second ?? 0, per: 1 }
    : {
        kind: 'seconds',
        rateName: 'per_minute',
        count: seconds,
        rate: rates.per_minute,
        per: SECONDS_PER_MINUTE,
      }

/** The rates of the highest tier whose threshold the prompt exceeds. */
function tierAt({ tiers }: Price, promptTokens: number): Rates | undefined {
  return tiers?.findLast(tier => promptTokens > tier.inputOver)?.rates
}

const rateOf = (rates: Rates, tier: Rates | undefined, kind: TokenCount): number =>
  statedRate(rates, tier, kind)[1]

function statedRate(
  rates: Rates,
  tier: Rates | undefined,
  kind: TokenCount,
): readonly [name: TokenRate, rate: number] {
  for (const name of RATES_OF[kind]) {
    const rate = tier?.[name] ?? rates[name]
    if (rate !== undefined) return [name, rate]
  }
  return [RATES_OF[kind][0], 0]
}

/** Picodollars of one line, rounded up. */
export function picosOf({ count, rate, per }: Charge): bigint {
  return ceilDivide(BigInt(count) * BigInt(rate), BigInt(per))
}

function total(charges: readonly Charge[]): number {
  let picos = 0
  for (const { count, rate, per } of charges) {
    const product = count * rate
    // A product above 2^53 may have been rounded, and the division would hide that.
    if (!Number.isSafeInteger(product)) return bigIntTotal(charges)
    const rest = product % per
    // Rounding each line up to a picodollar keeps integers and does not change the final rounding to nanodollars.
    picos += (product - rest) / per + (rest > 0 ? 1 : 0)
  }
  return Number.isSafeInteger(picos) ? nanosFromPicos(picos) : bigIntTotal(charges)
}

/** The total above 9,007 USD, where picodollars exceed a safe integer but nanodollars do not. */
function bigIntTotal(charges: readonly Charge[]): number {
  let picos = 0n
  for (const charge of charges) picos += picosOf(charge)
  return safe(Number(ceilDivide(picos, BigInt(PICOS_PER_NANO))))
}

const ceilDivide = (amount: bigint, divisor: bigint): bigint => (amount + divisor - 1n) / divisor
