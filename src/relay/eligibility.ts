import { CHANNEL_STATUS } from '../domain/channel.ts'
import { Refusal } from '../domain/errors.ts'
import { SKIP_REASONS } from '../routing/plan.ts'
import { type RoutedModel, sentModel } from '../routing/table.ts'
import { type Catalog, type FormatChoice, formatOn, type RelayChannel } from './catalog/catalog.ts'
import type { Work, WorkLimits } from './operations/operation.ts'

/** Reasons that depend on the request, beside those of the plan. */
const NOT_OFFERED = 'not_offered'
const UNPRICED = 'unpriced'

/** What a channel must have to take a request. The plan judges its health and its limits. */
export type Demand = {
  readonly catalog: Pick<Catalog, 'table'>
  readonly route: RoutedModel<RelayChannel>
  readonly spec: FormatChoice
  /** Whether the content of the request is one that the channel cannot take; absent where there is no content yet. */
  isUnfit?(channel: RelayChannel, sentModel: string): boolean
  /** Undefined: the channel has no price, so it cannot be billed. */
  priceFor(channel: RelayChannel): object | undefined
}

/**
 * Decides why a channel is not eligible for a request; undefined: it is. This is the only such rule: chat, media, video
 * jobs and the explanation of a route all use it.
 */
export const createEligibility =
  ({ catalog, route, spec, isUnfit, priceFor }: Demand) =>
  (channel: RelayChannel): string | undefined => {
    // The channel may have been deleted or disabled since the request was admitted.
    if (catalog.table().channel(channel.id)?.status !== CHANNEL_STATUS.enabled) return SKIP_REASONS.disabled
    const model = sentModel(channel, route.model)
    if (formatOn(channel, spec, model) === undefined || isUnfit?.(channel, model)) return NOT_OFFERED
    return priceFor(channel) === undefined ? UNPRICED : undefined
  }

/** Why a channel cannot take this content. A strict request does not fit a channel that would drop a field of it. */
export function unfitOn(
  work: Work,
  channel: RelayChannel,
  sent: string,
  limits?: WorkLimits,
): Refusal | undefined {
  const fault = work.unfit?.(channel, sent)
  if (fault || !work.isStrict) return fault
  const dressed = work.dress(channel, sent, limits)
  const { warnings = [], removed = [] } = Buffer.isBuffer(dressed) ? {} : dressed
  const [warning] = warnings
  if (warning === undefined) return undefined
  const message = `${warning}, and x-sluice-strict does not allow that`
  const [path] = removed
  return new Refusal('invalid_parameter', message, path === undefined ? {} : { errors: [{ path, message }] })
}

/** Refuses a request that fits no channel of its model: only the client can change that. */
export function mustFit({ tiers, model }: RoutedModel<RelayChannel>, work: Work, limits?: WorkLimits): void {
  if (!work.unfit && !work.isStrict) return
  const channels = tiers.flatMap(tier => tier.channels)
  const faults = channels.map(channel => unfitOn(work, channel, sentModel(channel, model), limits))
  const [first] = faults
  if (first && faults.every(fault => fault !== undefined)) throw first
}
