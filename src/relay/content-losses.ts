import type { Refusal } from '../domain/errors.ts'
import type { LostContent } from '../domain/warning.ts'
import type { SkipReason } from '../routing/plan.ts'
import { sentModel } from '../routing/table.ts'
import { formatOn, type RelayChannel } from './catalog/catalog.ts'
import { allowsLoss, contentRefusal, strictRefusal } from './eligibility.ts'
import type { ChannelRequest } from './operations/channel-request.ts'
import type { RelayRequest } from './request.ts'
import { formatVariants } from './upstream/format-fallback.ts'

type LossyRequest = Pick<RelayRequest, 'deps' | 'spec' | 'work' | 'route' | 'priced'>

/**
 * Whether this encoding of the request leaves out more than the client accepts
 * (docs/reference/relay-api.md: Warnings and strict mode).
 */
export function isTooLossy({ deps, work, route }: LossyRequest, encoded: ChannelRequest): boolean {
  if (work.isStrict) return strictRefusal(encoded, route.requestedModel) !== undefined
  return encoded.lostContent !== undefined && !allowsLoss(work, deps.catalog.settings())
}

/** The content that a request loses, by encoding: channels that encode it in the same way are not tried. */
export type ContentLosses = ReturnType<typeof createContentLosses>

export function createContentLosses(request: LossyRequest) {
  const { spec, work, route, priced } = request
  const losses = new Map<string, LostContent>()
  const encodingOf = (channel: RelayChannel, model: string) =>
    `${channel.type} ${formatOn(channel, spec, model)} ${model}`

  /** Whether some format of the channel can express the whole content. */
  async function isTakenBy(channel: RelayChannel): Promise<boolean> {
    const model = sentModel(channel, route.model)
    for (const variant of formatVariants(channel, { spec, work, sentModel: model })) {
      if (losses.has(encodingOf(variant, model))) continue
      const { lostContent } = await work.requestFor(variant, model, priced)
      if (lostContent === undefined) return true
      losses.set(encodingOf(variant, model), lostContent)
    }
    return false
  }

  return {
    has: (channel: RelayChannel, model: string): boolean => losses.has(encodingOf(channel, model)),
    add(channel: RelayChannel, model: string, lost: LostContent): void {
      losses.set(encodingOf(channel, model), lost)
    },
    /** The refusal if no channel was tried; undefined: a channel that is not available now may accept the content later. */
    async refusal(passedOver: readonly SkipReason[]): Promise<Refusal | undefined> {
      const later = new Set(
        passedOver.flatMap(skip => (skip.againInMs === undefined ? [] : [skip.channelId])),
      )
      for (const channel of route.tiers.flatMap(tier => tier.channels))
        if (later.has(channel.id) && (await isTakenBy(channel))) return undefined
      const [first] = losses.values()
      return first && contentRefusal(first, route.requestedModel)
    },
  }
}
