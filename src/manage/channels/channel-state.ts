import { CHANNEL_STATUS } from '../../domain/channel.ts'
import type { ChannelCondition } from '../../domain/channel-condition.ts'
import type { ChannelView } from './channel-view.ts'

type Condition = ChannelCondition['channel']

const READY: Condition = { state: 'ready', againInMs: 0, reason: '' }

/** The condition of a channel or key as the API shows it. */
export const presentCondition = ({ state, againInMs, reason }: Condition = READY, now: number) => ({
  state: state === 'resting' ? ('cooling_down' as const) : state,
  cooldown_until: state === 'resting' ? now + Math.ceil(againInMs / 1000) : null,
  reason,
})

type ChannelState = 'enabled' | 'disabled' | 'auto_disabled' | 'cooling_down' | 'trial'

function stateOf(status: number, { state }: Pick<Condition, 'state'>): ChannelState {
  if (status === CHANNEL_STATUS.disabled) return 'disabled'
  if (status === CHANNEL_STATUS.disabledByGateway) return 'auto_disabled'
  if (state === 'resting') return 'cooling_down'
  return state === 'ready' ? 'enabled' : 'trial'
}

function withCondition(view: ChannelView, reported: Condition | undefined, now: number) {
  const condition = view.status === CHANNEL_STATUS.enabled ? (reported ?? READY) : READY
  const { cooldown_until, reason } = presentCondition(condition, now)
  return { ...view, state: stateOf(view.status, condition), cooldown_until, cooldown_reason: reason }
}

/** Channels with the state in which requests find them now. */
export function withStates(
  views: readonly ChannelView[],
  conditions: readonly ChannelCondition[],
  now: number,
) {
  const byId = new Map(conditions.map(({ id, channel }) => [id, channel]))
  return views.map(view => withCondition(view, byId.get(view.id), now))
}

export const withState = (view: ChannelView, conditions: readonly ChannelCondition[], now: number) =>
  withCondition(view, conditions.find(({ id }) => id === view.id)?.channel, now)
