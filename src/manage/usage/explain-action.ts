import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { isOwnAction, type SuggestedAction } from '../../domain/explanation.ts'
import { isAdmin, outranks, type Role } from '../../domain/role.ts'
import {
  type Asker,
  freeOf,
  type LoggedAttempt,
  type PresentState,
  type RequestFacts,
} from './explain-facts.ts'

const KEY_REFUSED: readonly (number | string)[] = [401, 403]

/** The action that makes the next such request succeed; undefined if nothing on the gateway's side can. */
export function actionOf(
  { row, code, model, attempts }: RequestFacts,
  present: PresentState,
): SuggestedAction | undefined {
  const token = present.token && `token:${present.token.id}`
  const ofToken = (kind: SuggestedAction['kind']) => (token ? { kind, target: token } : undefined)
  switch (code) {
    case 'model_not_priced':
      return present.hasPrice ? undefined : { kind: 'set_price', target: `model:${model}` }
    case 'insufficient_quota':
      return freeOf(present.token) < freeOf(present.user)
        ? ofToken('raise_token_quota')
        : { kind: 'add_credit', target: `user:${row.user_id}` }
    case 'rate_limit_exceeded':
      return row.content.startsWith('The user ')
        ? { kind: 'raise_user_limit', target: `user:${row.user_id}` }
        : ofToken('raise_token_limit')
    case 'model_not_allowed':
      return ofToken('allow_model')
    case 'ip_not_allowed':
      return ofToken('allow_address')
    case 'invalid_api_key':
      return ofToken('enable_token')
    case 'model_not_found':
    case 'no_channel_available':
      return routingAction(model, present)
    case 'upstream_error':
    case 'upstream_401':
    case 'upstream_403':
    case 'upstream_404':
      return providerAction(attempts.at(-1))
    default:
      return undefined
  }
}

function routingAction(model: string, { channels }: PresentState): SuggestedAction | undefined {
  const enabled = channels.filter(({ status }) => status === CHANNEL_STATUS.enabled)
  const disabled = channels.find(({ status }) => status !== CHANNEL_STATUS.enabled)
  if (enabled.some(({ coolingS }) => coolingS === 0)) return undefined
  if (disabled) return { kind: 'enable_channel', target: `channel:${disabled.id}` }
  return enabled[0]
    ? { kind: 'edit_channel', target: `channel:${enabled[0].id}` }
    : { kind: 'add_channel', target: `model:${model}` }
}

function providerAction(last: LoggedAttempt | undefined): SuggestedAction | undefined {
  if (!last) return undefined
  const target = `channel:${last.channel}`
  if (KEY_REFUSED.includes(last.status)) return { kind: 'replace_key', target }
  return last.status === 404 ? { kind: 'edit_channel', target } : undefined
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
