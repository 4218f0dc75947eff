import { CHANNEL_STATUS } from '../domain/channel.ts'
import { Refusal } from '../domain/errors.ts'
import { SKIP_REASONS } from '../routing/plan.ts'
import { type RoutedModel, sentModel } from '../routing/table.ts'
import { type Catalog, type FormatChoice, formatOn, type RelayChannel } from './catalog/catalog.ts'
import type { ChannelRequest, WorkLimits } from './operations/channel-request.ts'
import type { Work } from './operations/operation.ts'

/** Skip reasons that depend on the request. The plan has others. */
export const NOT_OFFERED = 'not_offered'
const UNPRICED = 'unpriced'

/** The requirements of a request to a channel. The plan checks health and limits. */
type ChannelRequirements = {
  readonly catalog: Pick<Catalog, 'table'>
  readonly route: RoutedModel<RelayChannel>
  readonly spec: FormatChoice
  /** Whether the channel cannot take the content of the request; absent: there is no content yet. */
  isUnfit?(channel: RelayChannel, sentModel: string): boolean
  /** Undefined: the channel has no price, so that its use cannot be billed. */
  priceFor(channel: RelayChannel): object | undefined
}

/**
 * The returned function reports why a channel is skipped for a request; undefined: it is eligible. Chat, media, video jobs
 * and the explanation of a route share this rule.
 */
export const createSkipReason =
  ({ catalog, route, spec, isUnfit, priceFor }: ChannelRequirements) =>
  (channel: RelayChannel): string | undefined => {
    // The channel may have been deleted or disabled since the request was admitted.
    if (catalog.table().channel(channel.id)?.status !== CHANNEL_STATUS.enabled) return SKIP_REASONS.disabled
    const model = sentModel(channel, route.model)
    if (formatOn(channel, spec, model) === undefined || isUnfit?.(channel, model)) return NOT_OFFERED
    return priceFor(channel) === undefined ? UNPRICED : undefined
  }

/** Refuses a request that no channel of its model can take. Only the client can correct it. */
export function mustFit({ tiers, model }: RoutedModel<RelayChannel>, work: Work): void {
  if (!work.unfit) return
  const channels = tiers.flatMap(tier => tier.channels)
  const faults = channels.map(channel => work.unfit?.(channel, sentModel(channel, model)))
  const [first] = faults
  if (first && faults.every(fault => fault !== undefined)) throw first
}

/** The refusal of a strict request, if its encoding for this channel leaves a part out; undefined: nothing is left out. */
export function strictRefusal({
  warnings = [],
  removed = [],
}: Pick<ChannelRequest, 'warnings' | 'removed'>): Refusal | undefined {
  const [warning] = warnings
  if (warning === undefined) return undefined
  const message = `${warning}; x-sluice-strict does not allow this`
  const [path] = removed
  return new Refusal('invalid_parameter', message, path === undefined ? {} : { errors: [{ path, message }] })
}

/** Refuses a strict request if every channel would leave a part of it out. */
export async function mustFitStrictly(
  { tiers, model }: RoutedModel<RelayChannel>,
  work: Work,
  limits?: WorkLimits,
): Promise<void> {
  let first: Refusal | undefined
  for (const channel of tiers.flatMap(tier => tier.channels)) {
    const modelName = sentModel(channel, model)
    const refusal =
      work.unfit?.(channel, modelName) ?? strictRefusal(await work.requestFor(channel, modelName, limits))
    if (refusal === undefined) return
    first ??= refusal
  }
  if (first) throw first
}
