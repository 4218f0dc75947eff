import {
  cost,
  bound as costBound,
  grantedConditions,
  possiblePrices,
  priceAt,
  tokenBound,
} from '../../domain/cost.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Price, When } from '../../domain/price.ts'
import { SERVICES } from '../../domain/service.ts'
import { countedUsage, type ToolCalls, type Usage, withoutTokens, withToolCalls } from '../../domain/usage.ts'
import { mostCalls } from '../../metering/tool-calls.ts'
import {
  type RequestedTools,
  toolBounds,
  unreportedCalls,
  withSearches,
} from '../../requests/provider-tools.ts'
import { type RoutedModel, sentModel } from '../../routing/table.ts'
import type { Catalog, CatalogPrice, RelayChannel } from '../catalog/catalog.ts'
import type { ChannelRequest } from '../operations/channel-request.ts'
import type { Work } from '../operations/operation.ts'
import { isPaidFor, overrideTools, searchesOn } from '../operations/provider-tools.ts'
import { allowsRouting } from '../operations/routing-fields.ts'

/** The prices at the time when the request was admitted. Later changes do not affect it. */
export type RequestPrice = {
  /** Nanodollars. No answer to this request costs more. */
  readonly bound: number
  /** Undefined: the channel has no price, and is not eligible. */
  priceFor(channel: RelayChannel): CatalogPrice | undefined
  /** `served`: the price conditions, that is the services and image properties that were requested or delivered. */
  costOf(channel: RelayChannel, usage: Usage, served?: When): number
  /** The price of a further model that the vendor runs; undefined: it is billed as the requested model. */
  priceOfModel(model: string): CatalogPrice | undefined
  /** The price that applies: of several models that a request names, the most expensive one's. */
  billedBy(channel: RelayChannel, usage: Usage, served?: When): CatalogPrice | undefined
  /** The part of `served` that the price depends on. */
  pricedFor(channel: RelayChannel, served?: When): When
  /** The usage of a request whose provider reports none. `measured`: the usage measured from its answer. */
  counted(channel: RelayChannel, outputTokens: number, measured?: Usage): Usage
  /** The cost of an attempt that the provider may have billed although it never answered. */
  estimate(channel: RelayChannel, request?: SentRequest): number
  /** The requested services that the channel's price names. */
  granted(channel: RelayChannel): When
  priceOn(channel: RelayChannel): Price
  /** Tool calls that are charged although no answer reports them. */
  unreported(channel: RelayChannel, sentTools?: RequestedTools): ToolCalls | undefined
  /** Whether fields that choose among models are sent to the channel: every such model must have a price. */
  passesRouting(channel: RelayChannel): boolean
  /** The maximum output that the hold covers, if the client sets no limit. */
  maxOutput(channel: RelayChannel): number
  /** The maximum output that the price names; undefined: none. */
  modelMaximum(channel: RelayChannel): number | undefined
  /** The same bound for one channel, whose override may request more than the client did. */
  boundFor(channel: RelayChannel, work: Bounded): number
}

/** The part of the request sent to a channel that decides its cost; absent: as the client requested. */
type SentRequest = Pick<ChannelRequest, 'services' | 'tools'>

/** The part of a request that limits its cost. */
type Bounded = Pick<Work, 'inputTokens' | 'outputTokens' | 'units' | 'priceConditions' | 'tools'>

/** The part of the catalog that prices depend on. */
export type PriceSource = Pick<Catalog, 'priceOf' | 'settings'>

const FREE: CatalogPrice = { price: { rates: {} } as Price, model: '', version: 'unpriced' }

/** For prices without `max_output_tokens` (docs/reference/money.md: Output bound). */
const DEFAULT_MAX_OUTPUT = 8_192

const maxOutputOf = (price: Price) => price.maxOutputTokens ?? DEFAULT_MAX_OUTPUT

const NO_TOOLS: RequestedTools = { list: [] }
const NO_CONDITIONS: When = {}

/** The units that provider tools may add: tools with a price, and searches that the model always runs. */
function toolBoundsOf(price: Price, { tools = NO_TOOLS, inputTokens }: Bounded, searches: number) {
  if (tools.list.length === 0 && searches === 0) return undefined
  const bounds = toolBounds(tools, inputTokens, tool => isPaidFor(tool, price))
  return searches === 0 ? bounds : withSearches(bounds, searches)
}

/** The highest bound of these prices, of which there is at least one. */
function highestOf(prices: readonly Price[], boundUnder: (price: Price) => number): number {
  let highest = 0
  for (const price of prices) highest = Math.max(highest, boundUnder(price))
  return highest
}

/** What vendors may bill beyond the request itself. */
type Additions = {
  /** The searches that the model runs unasked. */
  readonly searches: number
  readonly reasonsBeyondLimit: boolean
}

function boundOf(
  { price }: CatalogPrice,
  work: Bounded,
  { searches, reasonsBeyondLimit }: Additions,
  priceConditions = work.priceConditions,
): number {
  const tools = toolBoundsOf(price, work, searches)
  const inputTokens = tools?.inputTokens ?? work.inputTokens
  const maxOutput = maxOutputOf(price)
  const limitedTokens = work.outputTokens(maxOutput)
  const outputTokens = reasonsBeyondLimit ? limitedTokens + Math.max(limitedTokens, maxOutput) : limitedTokens
  try {
    const prices = possiblePrices(price, priceConditions)
    if (work.units === undefined && tools === undefined)
      return highestOf(prices, each => tokenBound(each, inputTokens, outputTokens))
    const limits = { inputTokens, outputTokens, calls: 1, ...work.units, ...tools?.units }
    return highestOf(prices, each => costBound(each, limits))
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new Refusal('invalid_parameter', 'The request may cost more than any quota. Lower max_tokens.')
  }
}

/** A channel's override may change the requested services, but not those granted to the client. */
const servicesOf = ({ priceConditions: services = {} }: Work): When =>
  Object.fromEntries(SERVICES.flatMap(name => (services[name] === undefined ? [] : [[name, services[name]]])))

/** The price of the requested name, else of the alias target, else of the name that a channel maps it to. */
export class ChannelPrices {
  /** The price that all channels of the route share; undefined: it depends on the channel. */
  readonly shared: CatalogPrice | undefined
  readonly isFreeAllowed: boolean
  readonly #catalog: PriceSource
  readonly #route: RoutedModel<RelayChannel>
  #byChannel: Map<number, CatalogPrice | undefined> | undefined

  constructor(catalog: PriceSource, route: RoutedModel<RelayChannel>) {
    this.shared = catalog.priceOf(route.names)
    this.isFreeAllowed = catalog.settings().allow_unpriced_models
    this.#catalog = catalog
    this.#route = route
  }

  priceFor(channel: RelayChannel): CatalogPrice | undefined {
    if (this.shared) return this.shared
    this.#byChannel ??= new Map()
    if (!this.#byChannel.has(channel.id)) {
      const modelName = sentModel(channel, this.#route.model)
      this.#byChannel.set(channel.id, this.#catalog.priceOf([modelName]) ?? this.unpriced())
    }
    return this.#byChannel.get(channel.id)
  }

  /** The price of a model without one; undefined: such models are not served. */
  unpriced(): CatalogPrice | undefined {
    return this.isFreeAllowed ? FREE : undefined
  }
}

/** Prices a request for every channel of its route. */
export const priceWork = (catalog: PriceSource, route: RoutedModel<RelayChannel>, work: Work): RequestPrice =>
  new WorkPrice(catalog, route, work, undefined)

/** The same for a request that was already served: it needs no bound. */
export const priceServed = (
  catalog: PriceSource,
  route: RoutedModel<RelayChannel>,
  work: Work,
): Pick<RequestPrice, 'costOf'> => new WorkPrice(catalog, route, work, 0)

const NO_ADDITIONS: Additions = { searches: 0, reasonsBeyondLimit: false }
const additionsByRoute = new WeakMap<RoutedModel<RelayChannel>, Additions>()

/** What any channel of a route may add. Cached, because every request needs it. */
function additionsIn(route: RoutedModel<RelayChannel>): Additions {
  const cached = additionsByRoute.get(route)
  if (cached !== undefined) return cached
  const channels = channelsOf(route)
  const additions = {
    searches: Math.max(0, ...channels.map(channel => searchesOn(channel, route.model))),
    reasonsBeyondLimit: channels.some(reasonsBeyondLimit),
  }
  additionsByRoute.set(route, additions)
  return additions
}

/** Whether the vendor bills reasoning that the output limit of a chat does not cover. */
const reasonsBeyondLimit = ({ provider }: RelayChannel): boolean =>
  (provider.limitsAnswerOnly ?? false) || (provider.usage?.reasoningOutside ?? false)

const channelsOf = ({ tiers }: RoutedModel<RelayChannel>) => tiers.flatMap(({ channels }) => channels)

/** An object of a class, because every request has one: its methods as closures took 2 KB. */
class WorkPrice implements RequestPrice {
  readonly bound: number
  readonly #catalog: PriceSource
  readonly #route: RoutedModel<RelayChannel>
  readonly #work: Work
  readonly #prices: ChannelPrices
  readonly #additions: Additions

  constructor(catalog: PriceSource, route: RoutedModel<RelayChannel>, work: Work, bound: number | undefined) {
    this.#catalog = catalog
    this.#route = route
    this.#work = work
    this.#prices = new ChannelPrices(catalog, route)
    this.#additions = work.tools === undefined ? NO_ADDITIONS : additionsIn(route)
    const { shared } = this.#prices
    if (bound !== undefined) {
      this.bound = bound
      return
    }
    this.bound =
      shared && work.namedModels === undefined
        ? Math.max(0, boundOf(shared, work, this.#additions))
        : this.#boundOfAll()
  }

  priceFor(channel: RelayChannel): CatalogPrice | undefined {
    return this.#prices.priceFor(channel)
  }

  priceOn(channel: RelayChannel): Price {
    return this.#pricedOrFree(channel).price
  }

  priceOfModel(model: string): CatalogPrice | undefined {
    return this.#catalog.priceOf([model])
  }

  billedBy(channel: RelayChannel, usage: Usage, served?: When): CatalogPrice | undefined {
    if (this.#work.namedModels === undefined) return this.priceFor(channel)
    const costUnder = (candidate: CatalogPrice) => this.#costAt(candidate, channel, usage, served)
    return this.#pricesOn(channel).reduce((dearest, each) =>
      costUnder(each) > costUnder(dearest) ? each : dearest,
    )
  }

  costOf(channel: RelayChannel, usage: Usage, served?: When): number {
    return this.#costAt(this.billedBy(channel, usage, served) ?? FREE, channel, usage, served)
  }

  pricedFor(channel: RelayChannel, served: When = this.#work.priceConditions ?? NO_CONDITIONS): When {
    return this.#grantedOn(channel, served)
  }

  granted(channel: RelayChannel): When {
    return this.#grantedOn(channel, this.#work.priceConditions ?? NO_CONDITIONS)
  }

  counted(channel: RelayChannel, outputTokens: number, measured?: Usage): Usage {
    const work = this.#work
    return this.#byLength(
      channel,
      measured ?? work.counted?.(outputTokens) ?? countedUsage(work.countedInput, outputTokens),
    )
  }

  unreported(channel: RelayChannel, sentTools = this.#work.tools): ToolCalls | undefined {
    if (sentTools === undefined) return undefined
    const { list } = sentTools
    const overrides = overrideTools(channel)
    if (list.length === 0 && this.#additions.searches === 0 && overrides.length === 0) return undefined
    const { price } = this.#pricedOrFree(channel)
    const calls = unreportedCalls([...list, ...overrides].filter(tool => isPaidFor(tool, price)))
    return searchesOn(channel, this.#route.model) > 0 ? mostCalls(calls, { searches: 1 }) : calls
  }

  estimate(channel: RelayChannel, request?: SentRequest): number {
    const usage = this.#work.estimated?.()
    const guessed = usage ? this.#byLength(channel, usage) : this.counted(channel, 0)
    return this.costOf(
      channel,
      withToolCalls(guessed, this.unreported(channel, request?.tools)),
      request?.services,
    )
  }

  passesRouting(channel: RelayChannel): boolean {
    return this.#alternativesOn(channel) !== undefined
  }

  maxOutput(channel: RelayChannel): number {
    return maxOutputOf(this.#pricedOrFree(channel).price)
  }

  modelMaximum(channel: RelayChannel): number | undefined {
    return this.priceFor(channel)?.price.maxOutputTokens
  }

  boundFor(channel: RelayChannel, changed: Bounded): number {
    const conditions = { ...servicesOf(this.#work), ...changed.priceConditions }
    return Math.max(
      ...this.#pricesOn(channel).map(price => boundOf(price, changed, this.#additions, conditions)),
    )
  }

  #pricedOrFree(channel: RelayChannel): CatalogPrice {
    return this.priceFor(channel) ?? FREE
  }

  /** The bound over every price that may apply on any channel. */
  #boundOfAll(): number {
    const { tiers, requestedModel } = this.#route
    const channels = channelsOf(this.#route)
    const { shared } = this.#prices
    const prices = shared ? [shared] : channels.flatMap(channel => this.priceFor(channel) ?? [])
    if (prices.length === 0 && tiers.length > 0)
      throw new Refusal(
        'model_not_priced',
        `The model "${requestedModel}" has no price. Ask an administrator to set one.`,
      )
    const alternatives = channels.flatMap(channel => this.#alternativesOn(channel) ?? [])
    return Math.max(
      0,
      ...[...prices, ...alternatives].map(price => boundOf(price, this.#work, this.#additions)),
    )
  }

  /** Prices of the models that the provider may choose from; undefined: the channel allows no choice. */
  #alternativesOn(channel: RelayChannel): readonly CatalogPrice[] | undefined {
    const { namedModels } = this.#work
    if (namedModels === undefined || !allowsRouting(channel)) return undefined
    const prices = namedModels.map(name => this.priceOfModel(name) ?? this.#prices.unpriced())
    return prices.every(each => each !== undefined) ? prices : undefined
  }

  /** Every price that may apply to an answer of the channel. */
  #pricesOn(channel: RelayChannel): readonly CatalogPrice[] {
    return [this.#pricedOrFree(channel), ...(this.#alternativesOn(channel) ?? [])]
  }

  #costAt({ price }: CatalogPrice, channel: RelayChannel, usage: Usage, served?: When): number {
    const usual = price.variants ? priceAt(price, this.pricedFor(channel, served)) : price
    if (usage.inferences === undefined) return cost(usual, usage)
    return cost(usual, usage, model => {
      const other = this.priceOfModel(model)
      return other ? priceAt(other.price, this.#work.priceConditions ?? NO_CONDITIONS) : usual
    })
  }

  #grantedOn(channel: RelayChannel, services: When): When {
    if (services === NO_CONDITIONS) return services
    return this.#work.namedModels === undefined
      ? grantedConditions(this.#pricedOrFree(channel).price, services)
      : this.#pricesOn(channel).reduce(
          (remaining, { price }) => grantedConditions(price, remaining),
          services,
        )
  }

  /** A measured length is more accurate than tokens estimated from it. */
  #byLength(channel: RelayChannel, usage: Usage): Usage {
    if (usage.seconds === 0) return usage
    const { per_second, per_minute } = this.#pricedOrFree(channel).price.rates
    return (per_second ?? per_minute) === undefined ? usage : withoutTokens(usage)
  }
}
