import { CHANNEL_STATUS } from '../domain/channel.ts'
import { Refusal } from '../domain/errors.ts'
import type { Settings } from '../domain/setting.ts'
import type { LostContent } from '../domain/warning.ts'
import { SKIP_REASONS } from '../routing/plan.ts'
import { healthIdOf, type RoutedModel, sentModel } from '../routing/table.ts'
import { type Catalog, type FormatChoice, formatOn, type RelayChannel } from './catalog/catalog.ts'
import type { ChannelRequest, WorkLimits } from './operations/channel-request.ts'
import type { Work } from './operations/operation.ts'
import { type FormatRequest, formatVariants } from './upstream/format-fallback.ts'

/** Skip reasons that depend on the request. The plan has others. */
export const NOT_OFFERED = 'not_offered'
const UNPRICED = 'unpriced'

/** The requirements of a request to a channel. The plan checks health and limits. */
type ChannelRequirements = {
  readonly catalog: Pick<Catalog, 'table'>
  readonly route: RoutedModel<RelayChannel>
  readonly spec: FormatChoice
  /** What tells whether the channel cannot take the content of the request; absent: there is no content yet. */
  readonly work?: { unfit?(channel: RelayChannel, sentModel: string): unknown }
  /** Without a price for the channel, its use cannot be billed. */
  readonly prices: { priceFor(channel: RelayChannel): object | undefined }
}

/**
 * The returned function reports why a channel is skipped for a request; undefined: it is eligible. Chat, media, video jobs
 * and the explanation of a route share this rule.
 */
export const createSkipReason =
  (requirements: ChannelRequirements) =>
  (channel: RelayChannel): string | undefined => {
    const { catalog, route, spec, work, prices } = requirements
    // The channel may have been deleted or disabled since the request was admitted, or the canary that tries it has ended.
    const table = catalog.table()
    const current = table.channel(healthIdOf(channel)) ?? table.channel(channel.id)
    if (current?.status !== CHANNEL_STATUS.enabled && !route.isForced) return SKIP_REASONS.disabled
    const model = sentModel(channel, route.model)
    if (formatOn(channel, spec, model) === undefined) return NOT_OFFERED
    if (work?.unfit?.(channel, model) !== undefined) return NOT_OFFERED
    return prices.priceFor(channel) === undefined ? UNPRICED : undefined
  }

/** Whether content of the request may be left out: its client accepts that, or the setting `allow_lossy` does. */
export const allowsLoss = (
  { isStrict, isLossy }: Pick<Work, 'isStrict' | 'isLossy'>,
  { allow_lossy }: Pick<Settings, 'allow_lossy'>,
): boolean => !isStrict && (isLossy === true || allow_lossy)

type FittedWork = Pick<Work, 'unfit' | 'lostContent' | 'isStrict' | 'isLossy'>

/** Why a channel cannot take the request, as far as that is known before it is encoded; undefined: it can. */
export const createFitCheck =
  (
    catalog: Pick<Catalog, 'settings'>,
    { model, requestedModel }: RoutedModel<RelayChannel>,
    work: FittedWork,
  ) =>
  (channel: RelayChannel): Refusal | undefined => {
    const modelName = sentModel(channel, model)
    const fault = work.unfit?.(channel, modelName)
    if (fault || !work.lostContent || allowsLoss(work, catalog.settings())) return fault
    const lost = work.lostContent(channel, modelName)
    return lost && contentRefusal(lost, requestedModel)
  }

/** Refuses a request that no channel of its model can take. Only the client can correct it. */
export function mustFit(
  catalog: Pick<Catalog, 'settings'>,
  route: RoutedModel<RelayChannel>,
  work: Work,
): void {
  if (!work.unfit) return
  const channels = route.tiers.flatMap(tier => tier.channels)
  const faults = channels.map(createFitCheck(catalog, route, work))
  const [first] = faults
  if (first && faults.every(fault => fault !== undefined)) throw first
}

/** The refusal of a request with content that no channel of its model accepts. */
export function contentRefusal({ path, reason }: LostContent, model: string): Refusal {
  const advice = 'Remove it, use another model, or send the header x-sluice-strict: false to leave it out.'
  const message = `${reason}. No channel of the model "${model}" accepts it. ${advice}`
  return new Refusal('unsupported_content', `${path}: ${message}`, { errors: [{ path, message }] })
}

type Losses = Pick<ChannelRequest, 'warnings' | 'removed' | 'lostContent'>

/** The refusal of a strict request, if its encoding for this channel leaves a part out; undefined: nothing is left out. */
export function strictRefusal(
  { warnings = [], removed = [], lostContent }: Losses,
  requestedModel: string,
): Refusal | undefined {
  if (lostContent) return contentRefusal(lostContent, requestedModel)
  const [warning] = warnings
  if (warning === undefined) return undefined
  const message = `${warning}; x-sluice-strict does not allow this`
  const [path] = removed
  return new Refusal('invalid_parameter', message, path === undefined ? {} : { errors: [{ path, message }] })
}

/** Refuses a strict request if every channel, in each of its formats, would leave a part of it out. */
export async function mustFitStrictly(
  { tiers, model, requestedModel }: RoutedModel<RelayChannel>,
  { spec, work }: Pick<FormatRequest, 'spec' | 'work'>,
  limits?: WorkLimits,
): Promise<void> {
  let first: Refusal | undefined
  for (const channel of tiers.flatMap(tier => tier.channels)) {
    const modelName = sentModel(channel, model)
    for (const variant of formatVariants(channel, { spec, work, sentModel: modelName })) {
      const refusal =
        work.unfit?.(variant, modelName) ??
        strictRefusal(await work.requestFor(variant, modelName, limits), requestedModel)
      if (refusal === undefined) return
      first ??= refusal
    }
  }
  if (first) throw first
}
