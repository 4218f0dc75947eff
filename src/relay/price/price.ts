import { cost, bound as costBound, grantedConditions, possiblePrices, priceAt } from '../../domain/cost.ts'
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
import type { ChannelRequest, WorkLimits } from '../operations/channel-request.ts'
import type { Work } from '../operations/operation.ts'
import { isPaidFor, overrideTools, searchesIn, searchesOn } from '../operations/provider-tools.ts'
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
  estimate(channel: RelayChannel, sent?: SentRequest): number
  /** The requested services that the channel's price names. */
  granted(channel: RelayChannel): When
  readonly priceOn: WorkLimits['priceOn']
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

const FREE: CatalogPrice = { price: { rates: {} } as Price, model: '', version: 'unpriced' }

/** For prices without `max_output_tokens` (docs/reference/money.md: Output bound). */
const DEFAULT_MAX_OUTPUT = 8_192

const maxOutputOf = (price: Price) => price.maxOutputTokens ?? DEFAULT_MAX_OUTPUT

const NO_TOOLS: RequestedTools = { list: [] }

/** The units that provider tools may add: tools with a price, and searches that the model always runs. */
function toolBoundsOf(price: Price, { tools = NO_TOOLS, inputTokens }: Bounded, searches: number) {
  if (tools.list.length === 0 && searches === 0) return undefined
  const bounds = toolBounds(tools, inputTokens, tool => isPaidFor(tool, price))
  return searches === 0 ? bounds : withSearches(bounds, searches)
}

const boundOf = ({ price }: CatalogPrice, work: Bounded, searches: number) => {
  const tools = toolBoundsOf(price, work, searches)
  const limits = {
    inputTokens: tools?.inputTokens ?? work.inputTokens,
    outputTokens: work.outputTokens(maxOutputOf(price)),
    calls: 1,
    ...work.units,
    ...tools?.units,
  }
  try {
    return Math.max(...possiblePrices(price, work.priceConditions).map(each => costBound(each, limits)))
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new Refusal('invalid_parameter', 'The request may cost more than any quota. Lower max_tokens.')
  }
}

/** A channel's override may change the requested services, but not those granted to the client. */
const servicesOf = ({ priceConditions: services = {} }: Work): When =>
  Object.fromEntries(SERVICES.flatMap(name => (services[name] === undefined ? [] : [[name, services[name]]])))

/** The price of the requested name, else of the alias target, else of the name that a channel maps it to. */
export function channelPrices(catalog: Catalog, route: RoutedModel<RelayChannel>) {
  const isFreeAllowed = catalog.settings().allow_unpriced_models
  const shared = catalog.priceOf(route.names)
  const byChannel = new Map<number, CatalogPrice | undefined>()
  return {
    /** The price that all channels of the route share; undefined: it depends on the channel. */
    shared,
    isFreeAllowed,
    priceFor(channel: RelayChannel): CatalogPrice | undefined {
      if (shared) return shared
      if (!byChannel.has(channel.id)) {
        const modelName = sentModel(channel, route.model)
        byChannel.set(channel.id, catalog.priceOf([modelName]) ?? (isFreeAllowed ? FREE : undefined))
      }
      return byChannel.get(channel.id)
    },
  }
}

/** Prices a request for every channel of its route. */
export function priceWork(catalog: Catalog, route: RoutedModel<RelayChannel>, work: Work): RequestPrice {
  const { shared, isFreeAllowed, priceFor } = channelPrices(catalog, route)

  const searches = work.tools === undefined ? 0 : searchesIn(route)
  const prices = shared
    ? [shared]
    : route.tiers.flatMap(({ channels }) => channels.flatMap(channel => priceFor(channel) ?? []))
  if (prices.length === 0 && route.tiers.length > 0)
    throw new Refusal(
      'model_not_priced',
      `The model "${route.requestedModel}" has no price. Ask an administrator to set one.`,
    )

  /** Prices of the models that the provider may choose from; undefined: the channel allows no choice. */
  function alternativesOn(channel: RelayChannel): readonly CatalogPrice[] | undefined {
    if (work.namedModels === undefined || !allowsRouting(channel)) return undefined
    const prices = work.namedModels.map(name => catalog.priceOf([name]) ?? (isFreeAllowed ? FREE : undefined))
    return prices.every(each => each !== undefined) ? prices : undefined
  }

  /** Every price that may apply to an answer of the channel. */
  const pricesOn = (channel: RelayChannel): readonly CatalogPrice[] => [
    priceFor(channel) ?? FREE,
    ...(alternativesOn(channel) ?? []),
  ]

  function costAt({ price }: CatalogPrice, channel: RelayChannel, usage: Usage, served?: When): number {
    const usual = price.variants ? priceAt(price, pricedFor(channel, served)) : price
    return cost(usual, usage, model => {
      const other = priceOfModel(model)
      return other ? priceAt(other.price, work.priceConditions ?? {}) : usual
    })
  }

  const priceOfModel = (model: string) => catalog.priceOf([model])

  function billedBy(channel: RelayChannel, usage: Usage, served?: When): CatalogPrice | undefined {
    if (work.namedModels === undefined) return priceFor(channel)
    const costUnder = (candidate: CatalogPrice) => costAt(candidate, channel, usage, served)
    return pricesOn(channel).reduce((dearest, each) =>
      costUnder(each) > costUnder(dearest) ? each : dearest,
    )
  }

  const costOf = (channel: RelayChannel, usage: Usage, served?: When): number =>
    costAt(billedBy(channel, usage, served) ?? FREE, channel, usage, served)

  const grantedOn = (channel: RelayChannel, services: When): When =>
    work.namedModels === undefined
      ? grantedConditions((priceFor(channel) ?? FREE).price, services)
      : pricesOn(channel).reduce((remaining, { price }) => grantedConditions(price, remaining), services)

  const pricedFor = (channel: RelayChannel, served: When = work.priceConditions ?? {}): When =>
    grantedOn(channel, served)

  /** A measured length is more accurate than tokens estimated from it. */
  function byLength(channel: RelayChannel, usage: Usage): Usage {
    const { per_second, per_minute } = (priceFor(channel) ?? FREE).price.rates
    const hasLength = usage.seconds > 0 && (per_second ?? per_minute) !== undefined
    return hasLength ? withoutTokens(usage) : usage
  }

  const counted = (channel: RelayChannel, outputTokens: number, measured?: Usage): Usage =>
    byLength(
      channel,
      measured ?? work.counted?.(outputTokens) ?? countedUsage(work.countedInput, outputTokens),
    )

  function unreported(channel: RelayChannel, sentTools = work.tools): ToolCalls | undefined {
    if (sentTools === undefined) return undefined
    const { list } = sentTools
    const overrides = overrideTools(channel)
    if (list.length === 0 && searches === 0 && overrides.length === 0) return undefined
    const { price } = priceFor(channel) ?? FREE
    const calls = unreportedCalls([...list, ...overrides].filter(tool => isPaidFor(tool, price)))
    return searchesOn(channel, route.model) > 0 ? mostCalls(calls, { searches: 1 }) : calls
  }

  function estimate(channel: RelayChannel, { services, tools }: SentRequest = {}): number {
    const usage = work.estimated?.()
    const guessed = usage ? byLength(channel, usage) : counted(channel, 0)
    return costOf(channel, withToolCalls(guessed, unreported(channel, tools)), services)
  }

  const reachable =
    work.namedModels === undefined
      ? prices
      : [
          ...prices,
          ...route.tiers.flatMap(({ channels }) => channels.flatMap(on => alternativesOn(on) ?? [])),
        ]

  return {
    bound: Math.max(0, ...reachable.map(price => boundOf(price, work, searches))),
    priceFor,
    billedBy,
    passesRouting: channel => alternativesOn(channel) !== undefined,
    boundFor: (channel, changed) => {
      const limited = { ...changed, priceConditions: { ...servicesOf(work), ...changed.priceConditions } }
      return Math.max(...pricesOn(channel).map(price => boundOf(price, limited, searches)))
    },
    priceOn: channel => (priceFor(channel) ?? FREE).price,
    unreported,
    granted: channel => grantedOn(channel, work.priceConditions ?? {}),
    costOf,
    priceOfModel,
    pricedFor,
    counted,
    modelMaximum: channel => priceFor(channel)?.price.maxOutputTokens,
    maxOutput: channel => maxOutputOf((priceFor(channel) ?? FREE).price),
    estimate,
  }
}
