import { listEnabledAliases } from '../../store/records/aliases.ts'
import { listListingChannels } from '../../store/records/served.ts'
import { namesOf } from '../../store/usage/names.ts'
import type { routingContract } from '../contract/routing.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { resolutionOf } from './served.ts'

const MAX_CHANNELS = 100

/** How the relay would route a request now. */
export const createRoutingHandlers = ({ db, routes, channels }: Deps): Handlers<typeof routingContract> => {
  const networkOf = (channelId: number) => routes.networkOf(channelId) ?? null

  /** The channels that list a model which no enabled channel serves. */
  async function unservedBy(model: string) {
    const aliases = new Map((await listEnabledAliases(db)).map(alias => [alias.name, alias]))
    const listed = await listListingChannels(db, resolutionOf(aliases, model).names, MAX_CHANNELS)
    return listed.map(({ id, name, status_reason }) => ({
      channel_id: id,
      channel_name: name,
      reason: 'disabled',
      again_in_ms: null,
      detail: status_reason,
      network: networkOf(id),
    }))
  }

  return {
    explainRoute: async ({ body }) => {
      const conditions = await channels.conditions()
      const failures = new Map(conditions.map(({ id, channel }) => [id, channel.reason]))
      const plan = routes.explain(
        {
          model: body.model,
          operation: body.operation ?? 'chat',
          tokenId: body.token_id,
          canaryId: body.canary_id,
        },
        conditions,
      )
      const names = await namesOf(
        db,
        'channel',
        plan.passedOver.map(({ channelId }) => channelId),
      )
      return {
        model: body.model,
        served_as: plan.servedAs ?? null,
        price: plan.price ?? null,
        canaries: [...plan.canaries],
        steps: plan.steps.map(({ channel, key, sentModel, isTrial }) => ({
          channel_id: channel.id,
          channel_name: channel.name,
          priority: channel.priority,
          key_index: key.index,
          sent_model: sentModel,
          is_trial: isTrial,
          network: networkOf(channel.id),
        })),
        passed_over:
          plan.servedAs === undefined
            ? await unservedBy(body.model)
            : plan.passedOver.map(({ channelId, reason, againInMs }) => ({
                channel_id: channelId,
                channel_name: names.get(channelId) ?? '',
                reason,
                again_in_ms: againInMs ?? null,
                detail: failures.get(channelId) ?? '',
                network: networkOf(channelId),
              })),
      }
    },
  }
}
