import type { routingContract } from '../contract/routing.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'

/** How the relay would route a request now. */
export const createRoutingHandlers = ({ routes, channels }: Deps): Handlers<typeof routingContract> => ({
  explainRoute: async ({ body }) => {
    const conditions = await channels.conditions()
    const failures = new Map(conditions.map(({ id, channel }) => [id, channel.reason]))
    const plan = routes.explain(body.model, body.operation ?? 'chat', conditions)
    return {
      model: body.model,
      served_as: plan.servedAs ?? null,
      price: plan.price ?? null,
      steps: plan.steps.map(({ channel, key, sentModel, isTrial }) => ({
        channel_id: channel.id,
        channel_name: channel.name,
        priority: channel.priority,
        key_index: key.index,
        sent_model: sentModel,
        is_trial: isTrial,
      })),
      passed_over: plan.passedOver.map(({ channelId, reason, againInMs }) => ({
        channel_id: channelId,
        reason,
        again_in_ms: againInMs ?? null,
        detail: failures.get(channelId) ?? '',
      })),
    }
  },
})
