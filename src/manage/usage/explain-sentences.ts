import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { isKeyRefusal, REFUSALS_TO_DISABLE } from '../../domain/channel-condition.ts'
import type { Rule } from '../../domain/explanation.ts'
import { usdText } from '../../domain/money.ts'
import { isExpired, TOKEN_STATUS } from '../../domain/token.ts'
import { causeSentence, hasFailed, type LoggedAttempt } from './explain-cause.ts'
import {
  freeOf,
  neededNanos,
  type PresentChannel,
  type PresentState,
  type RequestFacts,
  shortAccount,
} from './explain-facts.ts'
import { momentText, reference, secondsText } from './explain-words.ts'

/** The entries of a token's list that a sentence names. */
const MAX_NAMES = 20
const USER_ENABLED = 1

const listText = (json: string) => {
  const names = JSON.parse(json) as string[]
  const rest = names.length - MAX_NAMES
  return names.slice(0, MAX_NAMES).join(', ') + (rest > 0 ? ` … (+${rest})` : '')
}

export function outcomeSentence({ row, code, isRejected, attempts }: RequestFacts): string {
  const last = attempts.at(-1)
  if (code !== undefined && isRejected) return `The gateway rejected the request with ${code}: ${row.content}`
  if (code !== undefined) return `The request failed with ${code}: ${row.content}`
  if (last?.status === 'left' || last?.status === 'not sent')
    return 'The client disconnected before the provider answered.'
  const cost = `$${usdText(row.cost)}`
  return `The request succeeded after ${secondsText(row.use_time_ms)} and was charged ${cost}.`
}

const channelOf = ({ channelNames }: RequestFacts, id: number) =>
  reference({ id, name: channelNames.get(id) ?? 'deleted' })

export function attemptSentence(facts: RequestFacts, attempt: LoggedAttempt, index: number): string {
  const { channel, status, ms, provider } = attempt
  const start = `Attempt ${index + 1}: channel ${channelOf(facts, channel)}`
  const took = `after ${secondsText(ms)}`
  if (status === 'left') return `${start} was still working when the client disconnected ${took}.`
  if (status === 'not sent') return `${start} was not sent, because the client disconnected.`
  if (status === 'ECONNREFUSED') return `${start} refused the connection ${took}.`
  if (typeof status === 'string') return `${start} gave no valid answer ${took}: ${status}.`
  if (status < 400) return `${start} answered ${status} ${took}.`
  const code = provider?.code && provider.code !== String(status) ? ` ${provider.code}` : ''
  const words = provider?.message ? ` "${provider.message}"` : ''
  return `${start} answered ${status}${code} ${took}.${words}`
}

/** Why the last attempt failed; undefined if none did. */
export function failureSentence(facts: RequestFacts, { usedChannels }: PresentState): string | undefined {
  const last = facts.attempts.at(-1)
  if (!last || !hasFailed(last)) return undefined
  const cause = causeSentence(last, {
    model: facts.model,
    baseUrl: usedChannels.get(last.channel)?.base_url ?? '',
  })
  return `Channel ${channelOf(facts, last.channel)} failed. ${cause}`
}

/** Why routing skips a channel, without the channel as the subject. */
const SKIPPED: Readonly<Record<string, string>> = {
  trying: 'had failed before, and another request was its trial request.',
  full: 'had reached a rate limit of its own.',
  no_key: 'had no enabled key.',
  disabled: 'was disabled.',
  not_offered: 'does not offer what the request needs.',
  unpriced: 'has no price for the model.',
}

/** Channels that could not take the request when it was sent. */
export function passedOverSentences(facts: RequestFacts, { usedChannels }: PresentState): string[] {
  return facts.passedOver.flatMap(({ channelId, reason, failure }) => {
    const start = `Channel ${channelOf(facts, channelId)}`
    if (reason !== 'resting') {
      const why = SKIPPED[reason]
      return why === undefined ? [`${start} was skipped: ${reason}.`] : [`${start} ${why}`]
    }
    if (!failure) return [`${start} was cooling down after a failure.`]
    const { attempt, model, requestId, time } = failure
    const cause = causeSentence(attempt, { model, baseUrl: usedChannels.get(channelId)?.base_url ?? '' })
    const words = attempt.provider?.message
    return [
      `${start} was cooling down. ${cause}`,
      ...(words ? [`The provider reported: "${words}"`] : []),
      `The cooldown began with request ${requestId} at ${momentText(time)}.`,
    ]
  })
}

/** The state of a channel now, and what happens next. */
function channelSentences(channel: PresentChannel): string[] {
  const { status, status_reason, state, coolsUntil, failure, auto_ban } = channel
  const start = `Channel ${reference(channel)}`
  if (status === CHANNEL_STATUS.disabled) return [`${start} is disabled now.`]
  if (status === CHANNEL_STATUS.disabledByGateway)
    return [
      status_reason ? `${start} is auto-disabled now: ${status_reason}` : `${start} is auto-disabled now.`,
    ]
  if (state === 'ready') return [`${start} is enabled now and not cooling down.`]
  const failedStatus = Number.parseInt(failure, 10)
  return [
    state === 'resting'
      ? `${start} is cooling down until ${momentText(coolsUntil)}. Then it waits for a trial request.`
      : `The cooldown of channel ${reference(channel)} has ended. It waits for a trial request.`,
    ...(failedStatus === 429 && state === 'resting'
      ? ['Wait until then, or add another key or a second channel.']
      : []),
    ...(isKeyRefusal(failedStatus) && auto_ban === 1
      ? [`After ${REFUSALS_TO_DISABLE} rejections of the key in a row, the gateway disables the channel.`]
      : []),
  ]
}

const tokenText = ({ token }: PresentState) => `Token ${token ? reference(token) : '"deleted" (#0)'}`

/** Which limit of the token rejected the request, by its name and values. */
function tokenSentences({ code, model, row }: RequestFacts, present: PresentState): string[] {
  const { token, user, now } = present
  if (!token) return []
  const start = tokenText(present)
  if (code === 'model_not_allowed')
    return token.model_limits_enabled === 0 || (JSON.parse(token.models) as string[]).includes(model)
      ? [`${start} may use the model now.`]
      : [`${start} may use only these models: ${listText(token.models)}.`]
  if (code === 'ip_not_allowed')
    return token.allow_ips === '[]'
      ? [`${start} may be used from any address now.`]
      : [`${start} may be used only from these addresses: ${listText(token.allow_ips)}.`]
  if (code === 'rate_limit_exceeded')
    return row.content.startsWith('The user ') && user
      ? [`The limit is set on user ${reference({ id: user.id, name: user.username })}.`]
      : [`The limit is set on token ${reference(token)}.`]
  if (code !== 'invalid_api_key') return []
  if (token.status === TOKEN_STATUS.disabled) return [`${start} is disabled now.`]
  if (isExpired(token, now)) return [`${start} expired at ${momentText(token.expired_time)}.`]
  if (user && user.status !== USER_ENABLED)
    return [`User ${reference({ id: user.id, name: user.username })} is disabled now.`]
  return [`${start} is valid now.`]
}

/** Whose quota did not suffice, and what is left. */
function quotaSentences(facts: RequestFacts, present: PresentState): string[] {
  const { token, user } = present
  const needed = neededNanos(facts)
  const owner = user && reference({ id: user.id, name: user.username })
  const left = (start: string, account: Parameters<typeof freeOf>[0]) => {
    const free = freeOf(account)
    return Number.isFinite(free)
      ? [`${start} has $${usdText(Math.max(0, free))} left now.`]
      : [`${start} has no limit of its own.`]
  }
  const short = shortAccount(facts, present)
  return [
    ...(short === 'user' && owner
      ? [`The balance of user ${owner} does not suffice; the token is not the reason.`]
      : []),
    ...(short === 'token' && token ? [`The quota of token ${reference(token)} does not suffice.`] : []),
    ...(short === 'none' && needed !== undefined ? ['The quota suffices for such a request now.'] : []),
    ...(owner ? left(`User ${owner}`, user) : []),
    ...(token ? left(tokenText(present), token) : []),
  ]
}

/** The present state of what decided. */
export function presentSentences(
  rule: Rule,
  {
    facts,
    present,
    isForAdmin,
  }: { readonly facts: RequestFacts; readonly present: PresentState; readonly isForAdmin: boolean },
): string[] {
  const { hasPrice, channels, usedChannels } = present
  if (rule === 'price') return [hasPrice ? 'The model has a price now.' : 'The model still has no price.']
  if (rule === 'quota') return quotaSentences(facts, present)
  if (rule === 'token_limit' || rule === 'rate_limit' || rule === 'authentication')
    return tokenSentences(facts, present)
  if (!isForAdmin) return []
  if (rule === 'routing')
    return channels.length === 0
      ? ['No channel lists the model now.']
      : channels.flatMap(channel =>
          channel.status === CHANNEL_STATUS.disabled
            ? [`Channel ${reference(channel)} lists the model, but it is disabled now.`]
            : channelSentences(channel),
        )
  const last = usedChannels.get(facts.attempts.at(-1)?.channel ?? 0)
  return rule === 'provider' && last && (last.state !== 'ready' || last.status !== CHANNEL_STATUS.enabled)
    ? channelSentences(last)
    : []
}
