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
  /** Nanodollars; no answer to this request costs more. */
  readonly bound: number
  /** Undefined: the channel has no price, and is not eligible. */
  priceFor(channel: RelayChannel): CatalogPrice | undefined
  /** `served` is what the price depends on: the services and the picture that were asked for, or that were delivered. */
  costOf(channel: RelayChannel, usage: Usage, served?: When): number
  /** The price of a model that the vendor runs beside the requested one; undefined: the requested model's counts. */
  priceOfModel(model: string): CatalogPrice | undefined
  /** The price that this cost is taken from: of several models that a request names, the dearest one's. */
  billedBy(channel: RelayChannel, usage: Usage, served?: When): CatalogPrice | undefined
  /** What of that the price depends on. */
  pricedFor(channel: RelayChannel, served?: When): When
  /** The usage of a request whose provider reports none; `measured` is what its answer shows. */
  counted(channel: RelayChannel, outputTokens: number, measured?: Usage): Usage
  /** The cost of an attempt that may have been billed although it was never answered. */
  estimate(channel: RelayChannel, sent?: SentRequest): number
  /** What is asked for, without the services that the price of this channel does not name. */
  granted(channel: RelayChannel): When
  readonly priceOn: WorkLimits['priceOn']
  /** Calls of tools that are charged though no answer reports them. */
  unreported(channel: RelayChannel, sentTools?: RequestedTools): ToolCalls | undefined
  /** Whether the channel is sent fields that choose among models: each of these has a price. */
  passesRouting(channel: RelayChannel): boolean
  /** The longest answer that was held for, where the client sets no limit. */
  maxOutput(channel: RelayChannel): number
  /** The longest answer that the price names; undefined where it names none. */
  modelMaximum(channel: RelayChannel): number | undefined
  /** The same bound for one channel, which may make more of the request than the client did. */
  boundFor(channel: RelayChannel, work: Bounded): number
}

/** What of a request as it was sent to a channel decides its cost; absent: as the client asked. */
type SentRequest = Pick<ChannelRequest, 'services' | 'tools'>

/** What of a request says how much it may cost. */
type Bounded = Pick<Work, 'inputTokens' | 'outputTokens' | 'units' | 'asked' | 'tools'>

const FREE: CatalogPrice = { price: { rates: {} } as Price, model: '', version: 'unpriced' }

/** For prices without `max_output_tokens` (docs/reference/money.md: Output bound). */
const DEFAULT_MAX_OUTPUT = 8_192

const maxOutputOf = (price: Price) => price.maxOutputTokens ?? DEFAULT_MAX_OUTPUT

const NO_TOOLS: RequestedTools = { list: [] }

/** What tools of the provider may add: those that have a price, and searches that the model makes in any case. */
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
    return Math.max(...possiblePrices(price, work.asked).map(each => costBound(each, limits)))
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new Refusal(
      'invalid_parameter',
      'the request may cost more than any quota; ask for a shorter answer',
    )
  }
}

/** A channel's override may change what a request asks for, but not what its client was granted. */
const servicesOf = ({ asked: services = {} }: Work): When =>
  Object.fromEntries(SERVICES.flatMap(name => (services[name] === undefined ? [] : [[name, services[name]]])))

/** The price of the requested name, else of the alias target, else of the name that a channel maps it to. */
export function channelPrices(catalog: Catalog, route: RoutedModel<RelayChannel>) {
  const isFreeAllowed = catalog.settings().allow_unpriced_models
  const shared = catalog.priceOf(route.names)
  const byChannel = new Map<number, CatalogPrice | undefined>()
  return {
    /** The price that every channel of the route has; undefined where it depends on the channel. */
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
      `the model "${route.requestedModel}" has no price; an administrator can set one`,
    )

  /** Prices of the models that the provider may choose from; undefined where the channel lets it choose none. */
  function alternativesOn(channel: RelayChannel): readonly CatalogPrice[] | undefined {
    if (work.namedModels === undefined || !allowsRouting(channel)) return undefined
    const prices = work.namedModels.map(name => catalog.priceOf([name]) ?? (isFreeAllowed ? FREE : undefined))
    return prices.every(each => each !== undefined) ? prices : undefined
  }

  /** Every price that an answer of the channel may be billed at. */
  const pricesOn = (channel: RelayChannel): readonly CatalogPrice[] => [
    priceFor(channel) ?? FREE,
    ...(alternativesOn(channel) ?? []),
  ]

  function costAt({ price }: CatalogPrice, channel: RelayChannel, usage: Usage, served?: When): number {
    const usual = price.variants ? priceAt(price, pricedFor(channel, served)) : price
    return cost(usual, usage, model => {
      const other = priceOfModel(model)
      return other ? priceAt(other.price, work.asked ?? {}) : usual
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

  const pricedFor = (channel: RelayChannel, served: When = work.asked ?? {}): When =>
    grantedOn(channel, served)

  /** A length that was measured says more than tokens that were guessed from it. */
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
      const limited = { ...changed, asked: { ...servicesOf(work), ...changed.asked } }
      return Math.max(...pricesOn(channel).map(price => boundOf(price, limited, searches)))
    },
    priceOn: channel => (priceFor(channel) ?? FREE).price,
    unreported,
    granted: channel => grantedOn(channel, work.asked ?? {}),
    costOf,
    priceOfModel,
    pricedFor,
    counted,
    modelMaximum: channel => priceFor(channel)?.price.maxOutputTokens,
    maxOutput: channel => maxOutputOf((priceFor(channel) ?? FREE).price),
    estimate,
  }
}
