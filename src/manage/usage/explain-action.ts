import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { isKeyRefusal } from '../../domain/channel-condition.ts'
import { type ActionKind, isOwnAction, type SuggestedAction } from '../../domain/explanation.ts'
import { isAdmin, outranks, type Role } from '../../domain/role.ts'
import { isExpired, TOKEN_STATUS } from '../../domain/token.ts'
import { blameOf } from './explain-cause.ts'
import {
  type Asker,
  type PresentChannel,
  type PresentState,
  type RequestFacts,
  shortAccount,
} from './explain-facts.ts'

/** The action that makes the next such request succeed; undefined if nothing on the gateway's side can. */
export function actionOf(facts: RequestFacts, present: PresentState): SuggestedAction | undefined {
  const { row, code, model } = facts
  const { token, user } = present
  const ofToken = (kind: ActionKind) =>
    token ? { kind, target: `token:${token.id}`, name: token.name } : undefined
  const ofUser = (kind: ActionKind) => ({
    kind,
    target: `user:${row.user_id}`,
    name: user?.username ?? String(row.user_id),
  })
  switch (code) {
    case 'model_not_priced':
      return present.hasPrice ? undefined : { kind: 'set_price', target: `model:${model}`, name: model }
    case 'insufficient_quota': {
      const short = shortAccount(facts, present)
      if (short === 'none') return undefined
      return short === 'token' ? ofToken('raise_token_quota') : ofUser('add_credit')
    }
    case 'rate_limit_exceeded':
      return row.content.startsWith('The user ') ? ofUser('raise_user_limit') : ofToken('raise_token_limit')
    case 'model_not_allowed':
      return ofToken('allow_model')
    case 'ip_not_allowed':
      return ofToken('allow_address')
    case 'invalid_api_key':
      if (token?.status === TOKEN_STATUS.disabled) return ofToken('enable_token')
      if (token && isExpired(token, present.now)) return ofToken('extend_token')
      return user && user.status !== 1 ? ofUser('enable_user') : undefined
    case 'model_not_found':
    case 'no_channel_available':
      return routingAction(facts, present)
    default:
      return code === undefined ? undefined : providerAction(facts, present)
  }
}

const onChannel = (kind: ActionKind, { id, name }: Pick<PresentChannel, 'id' | 'name'>): SuggestedAction => ({
  kind,
  target: `channel:${id}`,
  name,
})

function routingAction({ model }: RequestFacts, { channels }: PresentState): SuggestedAction | undefined {
  const enabled = channels.filter(({ status }) => status === CHANNEL_STATUS.enabled)
  const disabled = channels.find(({ status }) => status !== CHANNEL_STATUS.enabled)
  if (enabled.some(({ state }) => state === 'ready')) return undefined
  const rejected = enabled.find(({ failure }) => isKeyRefusal(Number.parseInt(failure, 10)))
  if (rejected) return onChannel('replace_key', rejected)
  if (disabled) return onChannel('enable_channel', disabled)
  return enabled[0]
    ? onChannel('open_channel', enabled[0])
    : { kind: 'add_channel', target: `model:${model}`, name: model }
}

/** What mends the last failed attempt. The provider decides about other failures. */
function providerAction({ attempts, model }: RequestFacts, { usedChannels }: PresentState) {
  const last = attempts.at(-1)
  const channel = last && usedChannels.get(last.channel)
  if (!last || !channel) return undefined
  switch (blameOf(last)) {
    case 'key':
      return onChannel('replace_key', channel)
    case 'model':
      return onChannel(
        last.sent_model === undefined || last.sent_model === model ? 'open_channel' : 'edit_mapping',
        channel,
      )
    case 'address':
      return onChannel('edit_base_url', channel)
    case 'credit':
    case 'rate':
      return onChannel('open_channel', channel)
    default:
      return undefined
  }
}

export function mayTake(
  action: SuggestedAction,
  { row }: RequestFacts,
  { user }: PresentState,
  asker: Asker,
): boolean {
  if (isOwnAction(action)) return row.user_id === asker.id
  if (!isAdmin(asker)) return false
  const isOfUser = action.target.startsWith('user:')
  return !isOfUser || (user !== undefined && outranks(asker.role, user.role as Role))
}
