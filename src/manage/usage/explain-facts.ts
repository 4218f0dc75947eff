import { CHANNEL_STATUS } from '../../domain/channel.ts'
import type { ChannelCondition } from '../../domain/channel-condition.ts'
import type { Role } from '../../domain/role.ts'
import { listEnabledAliases } from '../../store/records/aliases.ts'
import { pricesInForce } from '../../store/records/prices.ts'
import { type ListingChannel, listListingChannels, readListingChannels } from '../../store/records/served.ts'
import { findToken, type TokenWithAccount } from '../../store/records/tokens.ts'
import { findUser, type UserWithAccount } from '../../store/records/users.ts'
import { findAttempts } from '../../store/usage/find-request.ts'
import type { LogStore } from '../../store/usage/log-filter.ts'
import type { LogWithNames } from '../../store/usage/logs.ts'
import { namesOf } from '../../store/usage/names.ts'
import { resolutionOf } from '../channels/served.ts'
import { createPriceOf } from '../money/pricing.ts'
import type { Deps } from '../server/deps.ts'
import { hasFailed, type LoggedAttempt } from './explain-cause.ts'

const MAX_CHANNELS = 5
/** A cooldown lasts at most five minutes, and a trial may take some more. */
const COOLDOWN_S = 600

/** Who wants to know. Users find their own requests only, and do not learn how requests are routed. */
export type Asker = { readonly id: number; readonly role: Role }

export type ExplainDeps = LogStore & {
  now(): number
  /** The health of enabled channels, if this process serves requests. */
  conditions(): ReturnType<Deps['channels']['conditions']>
}

/** A failed attempt of an earlier request, which started a cooldown. */
type EarlierFailure = {
  readonly requestId: string
  readonly time: number
  readonly model: string
  readonly attempt: LoggedAttempt
}

type PassedOver = {
  readonly channelId: number
  readonly reason: string
  /** Undefined if the channel was not cooling down, or the failed request is not in the log. */
  readonly failure: EarlierFailure | undefined
}

/** What a row says about its request. */
export type RequestFacts = {
  readonly row: LogWithNames
  readonly code: string | undefined
  readonly isRejected: boolean
  /** The model, also of a rejected request whose model is not served. */
  readonly model: string
  readonly attempts: readonly LoggedAttempt[]
  /** Channels that could not take the request, and why. */
  readonly passedOver: readonly PassedOver[]
  readonly channelNames: ReadonlyMap<number | string, string>
}

type Details = {
  readonly error_code?: string
  readonly rejected?: boolean
  readonly requested_model?: string
  readonly trace?: {
    readonly attempts?: readonly LoggedAttempt[]
    readonly passed_over?: readonly { readonly channelId: number; readonly reason: string }[]
  }
}
export const detailsOf = ({ other }: Pick<LogWithNames, 'other'>) => JSON.parse(other) as Details

/** The failure that started the cooldown in which a request found a channel. */
async function failureBefore(
  store: LogStore,
  channelId: number,
  row: LogWithNames,
): Promise<EarlierFailure | undefined> {
  const span = { from: row.created_time - COOLDOWN_S, to: row.created_time }
  for (const earlier of await findAttempts(store, channelId, span)) {
    const attempt = detailsOf(earlier).trace?.attempts?.findLast(
      each => each.channel === channelId && hasFailed(each),
    )
    if (attempt && earlier.request_id !== row.request_id)
      return {
        requestId: earlier.request_id,
        time: earlier.created_time,
        model: earlier.model_name,
        attempt,
      }
  }
  return undefined
}

export async function factsOf(store: LogStore, row: LogWithNames): Promise<RequestFacts> {
  const details = detailsOf(row)
  const isRejected = details.rejected === true
  const only = { channel: row.channel_id, status: 200, ms: row.use_time_ms }
  const attempts = details.trace?.attempts ?? (isRejected ? [] : [only])
  const passedOver = (details.trace?.passed_over ?? []).slice(0, MAX_CHANNELS)
  const channels = new Set([
    ...attempts.map(({ channel }) => channel),
    ...passedOver.map(({ channelId }) => channelId),
  ])
  return {
    row,
    code: details.error_code,
    isRejected,
    model: row.model_name || (details.requested_model ?? /"([^"]+)"/.exec(row.content)?.[1] ?? ''),
    attempts,
    passedOver: await Promise.all(
      passedOver.map(async each => ({
        ...each,
        failure:
          each.reason === 'resting' || each.reason === 'trying'
            ? await failureBefore(store, each.channelId, row)
            : undefined,
      })),
    ),
    channelNames: await namesOf(store.db, 'channel', [...channels]),
  }
}

/** A channel with its state now. */
export type PresentChannel = ListingChannel & {
  readonly state: ChannelCondition['channel']['state']
  /** The end of its cooldown, Unix seconds; 0 if it does not cool down. */
  readonly coolsUntil: number
  /** The failure that started the cooldown, in the provider's words. */
  readonly failure: string
}

/** What is true now about the things that decided: prices, balances, channels. */
export type PresentState = {
  readonly now: number
  readonly user: UserWithAccount | undefined
  readonly token: TokenWithAccount | undefined
  readonly hasPrice: boolean
  /** The channels that list the model. */
  readonly channels: readonly PresentChannel[]
  /** Those that the request tried or skipped, if they still exist. */
  readonly usedChannels: ReadonlyMap<number, PresentChannel>
}

export async function presentOf(deps: ExplainDeps, facts: RequestFacts): Promise<PresentState> {
  const { db } = deps
  const { row, model, channelNames } = facts
  const now = deps.now()
  const [user, token, aliases, prices, conditions] = await Promise.all([
    findUser(db, row.user_id),
    findToken(db, row.user_id, row.token_id),
    listEnabledAliases(db),
    pricesInForce(db, now),
    deps.conditions(),
  ])
  const { names } = resolutionOf(new Map(aliases.map(alias => [alias.name, alias])), model)
  const [listed, used] = await Promise.all([
    listListingChannels(db, names, MAX_CHANNELS),
    readListingChannels(db, [...channelNames.keys()].map(Number)),
  ])
  const byId = new Map(conditions.map(({ id, channel }) => [id, channel]))
  const present = (channel: ListingChannel): PresentChannel => {
    const condition = channel.status === CHANNEL_STATUS.enabled ? byId.get(channel.id) : undefined
    return {
      ...channel,
      state: condition?.state ?? 'ready',
      coolsUntil: condition?.state === 'resting' ? now + Math.ceil(condition.againInMs / 1000) : 0,
      failure: condition?.reason ?? '',
    }
  }
  return {
    now,
    user,
    token,
    hasPrice: createPriceOf(prices, now)({ name: model, pricedAs: names }) !== undefined,
    channels: listed.map(present),
    usedChannels: new Map(used.map(channel => [channel.id, present(channel)])),
  }
}

export const freeOf = (account: { unlimited: number; credited: number; posted: number } | undefined) =>
  account === undefined || account.unlimited === 1
    ? Number.POSITIVE_INFINITY
    : account.credited - account.posted

/** The most that a request without enough quota could cost, in nanodollars; undefined if its message does not say. */
export function neededNanos({ row }: RequestFacts): number | undefined {
  const [, usd] = /can cost up to \$(\d+(?:\.\d+)?)/.exec(row.content) ?? []
  return usd === undefined ? undefined : Math.round(Number(usd) * 1e9)
}

/** Which account is short now: of two, the one with less left. */
export function shortAccount(facts: RequestFacts, { token, user }: PresentState): 'token' | 'user' | 'none' {
  const needed = neededNanos(facts) ?? Number.POSITIVE_INFINITY
  const [ofToken, ofUser] = [freeOf(token), freeOf(user)]
  if (ofUser >= needed && ofToken >= needed) return 'none'
  return ofToken < ofUser ? 'token' : 'user'
}
