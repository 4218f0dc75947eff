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

/** The rates that a kind of token costs: the first one that is stated. None stated: that kind is free. */
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
 * Nanodollars that this usage costs: exact, and rounded up once, at the end. A RangeError where they pass 2^53. `priceOf`
 * gives the price of an inference that another model ran.
 */
export function cost(price: Price, usage: Usage, priceOf?: (model: string) => Price): number {
  return quickCost(price, usage) ?? exactCost(price, usage, priceOf)
}

/** What each kind of token costs, of the first rate that is stated for it. */
type Tariff = { readonly [kind in TokenCount]: number }

const tariffs = new WeakMap<Price, Tariff>()

/** A price never changes, and what a token of it costs is asked for several times with every request. */
function tariffOf(price: Price): Tariff {
  const known = tariffs.get(price)
  if (known) return known
  const rates = TOKEN_COUNTS.map(kind => [kind, rateOf(price.rates, undefined, kind)])
  const made = Object.fromEntries(rates) as Tariff
  tariffs.set(price, made)
  return made
}

/**
 * Nearly every request: tokens at one price, nothing by length, far below 2^53. No term is negative, so where the sum is
 * a safe integer each of them was, and nothing was rounded. Undefined where it is none of that.
 */
function quickCost(price: Price, usage: Usage): number | undefined {
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

/** What one kind of what was used costs. */
export type CostLine = Charge & { readonly kind: Count; readonly rateName: RateName }

/** The cost of a whole request, further inferences included: a tier goes by the prompt of each inference. */
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

/** The cost by kind: every line exact, and all of them together rounded up once. */
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

const laidOver = (price: Price, variant: Variant): Price => ({
  ...price,
  rates: { ...price.rates, ...variant.rates },
  ...(price.tiers && hasService(variant) && { tiers: servedTiers(price.rates, price.tiers, variant) }),
})

const hasService = ({ when }: Variant): boolean => SERVICES.some(name => when[name] !== undefined)

/** A service is as many times dearer in a tier as it is outside: vendors multiply the whole of their price. */
const servedTiers = (usual: Rates, tiers: readonly Tier[], variant: Variant): readonly Tier[] =>
  tiers.map(({ inputOver, rates }) => ({
    inputOver,
    rates: Object.fromEntries(
      (Object.entries(rates) as [RateName, number][]).map(([name, rate]) => {
        const served = variant.rates[name]
        if (served === undefined) return [name, rate]
        const base = usual[name] ?? 0
        const times = () => Number(ceilDivide(BigInt(rate) * BigInt(served), BigInt(base)))
        return [name, base > 0 ? times() : Math.max(rate, served)]
      }),
    ),
  }))

/**
 * What is asked for, without the services that the price does not name. Each must be named together with those before it:
 * what two of them cost at once cannot be told from what each costs alone. A variant that names them for another size or
 * resolution only says nothing of this one.
 */
export function granted({ variants = [] }: Price, asked: When): When {
  if (SERVICES.every(name => asked[name] === undefined)) return asked
  const rest: When = Object.fromEntries(
    CONDITIONS.filter(name => !isService(name)).flatMap(name =>
      asked[name] === undefined ? [] : [[name, asked[name]]],
    ),
  )
  let services: When = {}
  for (const name of SERVICES) {
    const wanted = asked[name]
    if (wanted === undefined) continue
    const more: When = { ...services, [name]: wanted }
    if (variants.some(variant => namesServices(variant, more) && isMet(variant, { ...rest, ...more })))
      services = more
  }
  return { ...rest, ...services }
}

/** Whether a variant is for exactly these services. */
const namesServices = ({ when }: Variant, services: When): boolean =>
  SERVICES.every(name => when[name] === services[name])

const isMet = ({ when }: Variant, made: When): boolean =>
  CONDITIONS.every(name => when[name] === undefined || isSame(when[name], made[name] ?? ''))

const isService = (name: Condition): boolean => (SERVICES as readonly string[]).includes(name)

const SIDES = /^(\d+)\s*[x×*]\s*(\d+)$/

/** What is meant by 720P and 720p, by 1024*1024 and 1024x1024 is the same, whoever writes it. */
const spelt = (condition: string): string => condition.trim().toLowerCase().replace(SIDES, '$1x$2')

const isSame = (a: string, b: string): boolean => a === b || spelt(a) === spelt(b)

/**
 * The price of what was made: that of the variants with the most conditions, all of them met; else the usual one. Variants
 * for the granted services go before all others.
 */
export function priceAt(price: Price, asked: When): Price {
  if (isUnconditional(asked)) return usualPrice(price)
  const made = granted(price, asked)
  const met = (price.variants ?? []).filter(variant => isMet(variant, made))
  const [searched, others] = apart(met)
  const served = others.filter(variant => namesServices(variant, servicesIn(made)))
  return [narrowest(served.length > 0 ? served : others), narrowest(searched)].reduce<Price>(
    (laid, variant) => (variant === undefined ? laid : laidOver(laid, variant)),
    usualPrice(price),
  )
}

const servicesIn = (asked: When): When =>
  Object.fromEntries(SERVICES.flatMap(name => (asked[name] === undefined ? [] : [[name, asked[name]]])))

/** How a search is asked for changes the price of searches alone, whatever else the request is priced by. */
const apart = (
  variants: readonly Variant[],
): readonly [searched: readonly Variant[], others: readonly Variant[]] => [
  variants.filter(({ when }) => when.web_search !== undefined),
  variants.filter(({ when }) => when.web_search === undefined),
]

/** The variant with the most conditions, the first of several. */
const narrowest = (variants: readonly Variant[]): Variant | undefined => {
  const size = ({ when }: Variant) => Object.keys(when).length
  return variants.reduce<Variant | undefined>(
    (most, each) => (most === undefined || size(each) > size(most) ? each : most),
    undefined,
  )
}

const isUnconditional = (asked: When): boolean => {
  for (const name in asked) if (asked[name as Condition] !== undefined) return false
  return true
}

const usualPrices = new WeakMap<Price, Price>()

/** The price without its variants: most requests ask for none, and a price never changes. */
function usualPrice(price: Price): Price {
  const known = usualPrices.get(price)
  if (known) return known
  const { variants: _, ...made } = price
  usualPrices.set(price, made)
  return made
}

/** Conditions that an answer meets only where its request asks for it. */
const isOnlyAsked = (name: Condition): boolean => name === 'web_search' || isService(name)

const NOTHING_ASKED: When = {}
const openPrices = new WeakMap<Price, readonly Price[]>()

/** Every price that an answer may come to: what the request leaves open is the provider's choice, but for services. */
export function pricesWithin(price: Price, asked: When = NOTHING_ASKED): readonly Price[] {
  if (price.variants === undefined) return [price]
  if (asked !== NOTHING_ASKED) return openWithin(price, price.variants, asked)
  const known = openPrices.get(price)
  if (known) return known
  const prices = openWithin(price, price.variants, asked)
  openPrices.set(price, prices)
  return prices
}

function openWithin(price: Price, variants: readonly Variant[], asked: When): readonly Price[] {
  const open = variants.filter(({ when }) =>
    CONDITIONS.every(
      name =>
        when[name] === undefined ||
        (asked[name] === undefined ? !isOnlyAsked(name) : isSame(when[name], asked[name])),
    ),
  )
  const [searched, others = []] = apart(open)
  const search = narrowest(searched)
  const usual = usualPrice(price)
  const all = [usual, ...others.map(variant => laidOver(usual, variant))]
  return search === undefined ? all : all.map(each => laidOver(each, search))
}

/** At most so many tokens of each direction, and so many of each other unit: 0 where it says nothing. */
export type UsageBound = {
  readonly inputTokens: number
  readonly outputTokens: number
  /** Kinds of token that this request cannot come to, whatever the answer is. */
  readonly unreachable?: readonly TokenCount[]
} & { readonly [unit in 'calls' | 'characters' | 'seconds' | 'images' | ToolCount]?: number }

/** Up to `inputTo` prompt tokens no token of a direction costs more than this. */
type Ceiling = {
  readonly inputOver: number
  readonly inputTo: number
  readonly input: number
  readonly output: number
}

const ALL_REACHABLE: readonly TokenCount[] = []
const ceilings = new WeakMap<Price, readonly Ceiling[]>()

function ceilingsOf({ rates, tiers = [] }: Price, unreachable: readonly TokenCount[]): Ceiling[] {
  // Even an empty prompt is above the base tier, and not above a tier that begins at 0.
  const base: Tier = { inputOver: -1, rates: {} }
  const all = [base, ...tiers]
  return all.map((tier, index) => {
    const dearest = (kinds: readonly TokenCount[]) =>
      Math.max(
        0,
        ...kinds.filter(kind => !unreachable.includes(kind)).map(kind => rateOf(rates, tier.rates, kind)),
      )
    return {
      inputOver: tier.inputOver,
      inputTo: all[index + 1]?.inputOver ?? Number.POSITIVE_INFINITY,
      input: dearest(INPUT_COUNTS),
      output: dearest(OUTPUT_COUNTS),
    }
  })
}

/** A price never changes, and what it comes to at most is asked for with every request. */
function knownCeilings(price: Price): readonly Ceiling[] {
  const known = ceilings.get(price)
  if (known) return known
  const made = ceilingsOf(price, ALL_REACHABLE)
  ceilings.set(price, made)
  return made
}

/**
 * Nanodollars that no usage within the limits can pass. Every token may turn out to be of the dearest kind, and the prompt
 * may end up in any tier that it is long enough for; a cheap long tier does not hide a dear short one.
 */
export function bound(price: Price, limits: UsageBound): number {
  const { inputTokens, outputTokens, unreachable = ALL_REACHABLE, ...units } = limits
  const most: Counts = { ...EMPTY, ...units }
  const fixed = unitLines(price.rates, most)
  let highest = total([...fixed, lengthLine(price.rates, most.seconds)])
  const all = unreachable.length === 0 ? knownCeilings(price) : ceilingsOf(price, unreachable)
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

/** Beside a price of tokens, the length of an answer is charged only where the answer tells no tokens. */
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

/** The rates of the highest tier that a prompt of this length passes. */
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

/** Picodollars of one line; a started one counts whole. */
export function picosOf({ count, rate, per }: Charge): bigint {
  return ceilDivide(BigInt(count) * BigInt(rate), BigInt(per))
}

function total(charges: readonly Charge[]): number {
  let picos = 0
  for (const { count, rate, per } of charges) {
    const product = count * rate
    // A product beyond 2^53 may have been rounded, and dividing it would hide that.
    if (!Number.isSafeInteger(product)) return hugeTotal(charges)
    const rest = product % per
    // A started picodollar counts whole: with the one rounding to follow that changes nothing, and stays an integer.
    picos += (product - rest) / per + (rest > 0 ? 1 : 0)
  }
  return Number.isSafeInteger(picos) ? nanosFromPicos(picos) : hugeTotal(charges)
}

/** The same beyond 9,007 USD, where picodollars no longer fit a number but nanodollars do. */
function hugeTotal(charges: readonly Charge[]): number {
  let picos = 0n
  for (const charge of charges) picos += picosOf(charge)
  return safe(Number(ceilDivide(picos, BigInt(PICOS_PER_NANO))))
}

const ceilDivide = (amount: bigint, divisor: bigint): bigint => (amount + divisor - 1n) / divisor
