import { Refusal } from '../../domain/errors.ts'
import type { Usage } from '../../domain/usage.ts'
import type { RoutedModel } from '../../routing/table.ts'
import { sentModel } from '../../routing/table.ts'
import type { Catalog, CatalogPrice, RelayChannel } from '../catalog/catalog.ts'
import { changedWork } from '../operations/operation.ts'
import { priceWork, type RequestPrice } from '../price/price.ts'
import { secondsOn, usageOf, type VideoWork } from './request.ts'

export type VideoPrice = RequestPrice & {
  /** The usage of this many videos of the request on a channel. */
  usageOn(channel: RelayChannel, videos: number): Usage
  secondsOn(channel: RelayChannel): number | undefined
  /** Whether a longer video costs more on the channel. */
  isByLength(channel: RelayChannel): boolean
}

const UNITS = ['per_call', 'per_second', 'per_minute', 'image'] as const
const LENGTHS = ['per_second', 'per_minute'] as const

const ratesOf = ({ price }: CatalogPrice) => [
  price.rates,
  ...(price.variants ?? []).map(({ rates }) => rates),
]

/** Whether a price bills videos. Videos have no tokens, so a price per token would make them free. */
export const isOfVideos = (price: CatalogPrice) =>
  price.version === 'unpriced' || ratesOf(price).some(rates => UNITS.some(unit => rates[unit] !== undefined))

const isByLength = (price: CatalogPrice) =>
  ratesOf(price).some(rates => LENGTHS.some(unit => rates[unit] !== undefined))

/** The price of a job (docs/reference/videos.md: Video price). */
export function priceVideo(catalog: Catalog, route: RoutedModel<RelayChannel>, work: VideoWork): VideoPrice {
  const { ask } = work
  const channels = route.tiers.flatMap(tier => tier.channels)
  const secondsFor = (channel: RelayChannel) => secondsOn(ask, channel, sentModel(channel, route.model))
  const longest = Math.max(0, ...channels.map(channel => secondsFor(channel) ?? 0))
  const { calls, seconds } = usageOf(ask.n, longest)
  const priced = priceWork(
    catalog,
    route,
    changedWork(work, { units: { calls, seconds, images: ask.stills.length } }),
  )

  function priceFor(channel: RelayChannel): CatalogPrice | undefined {
    const price = priced.priceFor(channel)
    if (!price || !isOfVideos(price)) return undefined
    return isByLength(price) && secondsFor(channel) === undefined ? undefined : price
  }

  const prices = channels.flatMap(channel => priced.priceFor(channel) ?? [])
  if (prices.length > 0 && !channels.some(channel => priceFor(channel) !== undefined)) {
    if (!prices.some(isOfVideos))
      throw new Refusal(
        'model_not_priced',
        `The model "${route.requestedModel}" has no price per video or per second. Ask an administrator to set one.`,
      )
    const message = 'is missing, and the model has no default length'
    throw new Refusal('missing_parameter', `seconds ${message}`, { errors: [{ path: 'seconds', message }] })
  }

  const usageOn = (channel: RelayChannel, videos: number) => ({
    ...usageOf(videos, secondsFor(channel)),
    images: videos > 0 ? ask.stills.length : 0,
  })
  return {
    bound: priced.bound,
    priceFor,
    priceOn: channel => priced.priceOn(channel),
    priceOfModel: model => priced.priceOfModel(model),
    billedBy: (...billed) => priced.billedBy(...billed),
    costOf: (...used) => priced.costOf(...used),
    pricedFor: (...served) => priced.pricedFor(...served),
    granted: channel => priced.granted(channel),
    counted: (...counted) => priced.counted(...counted),
    unreported: (...tools) => priced.unreported(...tools),
    passesRouting: channel => priced.passesRouting(channel),
    maxOutput: channel => priced.maxOutput(channel),
    modelMaximum: channel => priced.modelMaximum(channel),
    boundFor: (...changed) => priced.boundFor(...changed),
    usageOn,
    secondsOn: secondsFor,
    isByLength(channel) {
      const price = priced.priceFor(channel)
      return price !== undefined && isByLength(price)
    },
    estimate: channel => priced.costOf(channel, usageOn(channel, ask.n)),
  }
}
