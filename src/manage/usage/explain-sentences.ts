import { CHANNEL_STATUS } from '../../domain/channel.ts'
import type { Rule } from '../../domain/explanation.ts'
import { usdText } from '../../domain/money.ts'
import { freeOf, type LoggedAttempt, type PresentState, type RequestFacts } from './explain-facts.ts'

const secondsText = (ms: number) => `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 0)} s`

export function outcomeSentence({ row, code, isRejected, attempts }: RequestFacts): string {
  const last = attempts.at(-1)
  if (code !== undefined && isRejected) return `The gateway rejected the request with ${code}: ${row.content}`
  if (code !== undefined) return `The request failed with ${code}: ${row.content}`
  if (last?.status === 'left' || last?.status === 'not sent')
    return 'The client disconnected before the provider answered.'
  const cost = `$${usdText(row.cost)}`
  return `The request succeeded after ${secondsText(row.use_time_ms)} and was charged ${cost}.`
}

export function attemptSentence(
  { channelNames }: RequestFacts,
  attempt: LoggedAttempt,
  index: number,
): string {
  const { channel, status, ms, provider } = attempt
  const name = channelNames.get(channel) ?? 'deleted'
  const start = `Attempt ${index + 1}: channel ${channel} ("${name}")`
  const took = `after ${secondsText(ms)}`
  if (status === 'left') return `${start} was still working when the client disconnected ${took}.`
  if (status === 'not sent') return `${start} was not sent, because the client disconnected.`
  if (typeof status === 'string') return `${start} did not answer ${took}: ${status}.`
  if (status < 400) return `${start} answered ${status} ${took}.`
  const code = provider?.code && provider.code !== String(status) ? ` ${provider.code}` : ''
  const words = provider?.message ? ` "${provider.message}"` : ''
  return `${start} answered ${status}${code} ${took}.${words}`
}

/** Channels that could not take the request when it was sent. */
export const passedOverSentences = ({ passedOver, channelNames }: RequestFacts): string[] =>
  passedOver.map(
    ({ channelId, reason }) =>
      `Channel ${channelId} ("${channelNames.get(channelId) ?? 'deleted'}") was skipped: ${reason}.`,
  )

function channelSentence({
  id,
  name,
  status,
  status_reason,
  coolingS,
  failure,
}: PresentState['channels'][number]): string {
  const start = `Channel ${id} ("${name}")`
  const reason = status_reason ? `: ${status_reason}` : ''
  if (status === CHANNEL_STATUS.disabled) return `${start} is disabled now.`
  if (status === CHANNEL_STATUS.disabledByGateway) return `${start} is auto-disabled now${reason}.`
  if (coolingS === 0) return `${start} is enabled now.`
  return `${start} is cooling down for another ${coolingS} s${failure ? `: ${failure}` : '.'}`
}

function balanceSentence(owner: string, free: number): string[] {
  return Number.isFinite(free) ? [`The ${owner} has $${usdText(Math.max(0, free))} left now.`] : []
}

/** The present state of what decided. */
export function presentSentences(rule: Rule, present: PresentState, isForAdmin: boolean): string[] {
  const { hasPrice, user, token, channels } = present
  if (rule === 'price') return [hasPrice ? 'The model has a price now.' : 'The model still has no price.']
  if (rule === 'quota')
    return [...balanceSentence('token', freeOf(token)), ...balanceSentence('user', freeOf(user))]
  if (rule !== 'routing' || !isForAdmin) return []
  return channels.length === 0 ? ['No channel lists the model now.'] : channels.map(channelSentence)
}
