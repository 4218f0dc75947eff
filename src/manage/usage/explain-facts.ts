import type { ChannelCondition } from '../../domain/channel-condition.ts'
import type { Role } from '../../domain/role.ts'
import { listEnabledAliases } from '../../store/records/aliases.ts'
import { pricesInForce } from '../../store/records/prices.ts'
import { type ListingChannel, listListingChannels } from '../../store/records/served.ts'
import { findToken, type TokenWithAccount } from '../../store/records/tokens.ts'
import { findUser, type UserWithAccount } from '../../store/records/users.ts'
import type { LogStore } from '../../store/usage/log-filter.ts'
import type { LogWithNames } from '../../store/usage/logs.ts'
import { namesOf } from '../../store/usage/names.ts'
import { resolutionOf } from '../channels/served.ts'
import type { explainContract } from '../contract/explain.ts'
import type { Answer } from '../contract/route.ts'
import { createPriceOf } from '../money/pricing.ts'
import type { Deps } from '../server/deps.ts'

const MAX_CHANNELS = 5

export type Explanation = Answer<(typeof explainContract)['explainRequest']>

/** Who wants to know. Users find their own requests only, and do not learn how requests are routed. */
export type Asker = { readonly id: number; readonly role: Role }

export type ExplainDeps = LogStore & {
  now(): number
  /** The health of enabled channels, if this process serves requests. */
  conditions(): ReturnType<Deps['channels']['conditions']>
}

export type LoggedAttempt = {
  readonly channel: number
  readonly status: number | string
  readonly ms: number
  readonly provider?: NonNullable<Explanation['attempts'][number]['provider']>
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
  readonly passedOver: readonly { readonly channelId: number; readonly reason: string }[]
  readonly channelNames: ReadonlyMap<number | string, string>
}

export async function factsOf({ db }: LogStore, row: LogWithNames): Promise<RequestFacts> {
  const other = JSON.parse(row.other) as {
    readonly error_code?: string
    readonly rejected?: boolean
    readonly trace?: {
      readonly attempts?: readonly LoggedAttempt[]
      readonly passed_over?: RequestFacts['passedOver']
    }
  }
  const isRejected = other.rejected === true
  const only = { channel: row.channel_id, status: 200, ms: row.use_time_ms }
  const attempts = other.trace?.attempts ?? (isRejected ? [] : [only])
  const passedOver = other.trace?.passed_over ?? []
  const channels = new Set([
    ...attempts.map(({ channel }) => channel),
    ...passedOver.map(({ channelId }) => channelId),
  ])
  return {
    row,
    code: other.error_code,
    isRejected,
    model: row.model_name || (/"([^"]+)"/.exec(row.content)?.[1] ?? ''),
    attempts,
    passedOver,
    channelNames: await namesOf(db, 'channel', [...channels]),
  }
}

/** What is true now about the things that decided: prices, balances, channels. */
export type PresentState = {
  readonly user: UserWithAccount | undefined
  readonly token: TokenWithAccount | undefined
  readonly hasPrice: boolean
  /** The channels that list the model, with the state of each. */
  readonly channels: readonly (ListingChannel & {
    readonly coolingS: number
    /** The failure that started the cooldown, in the provider's words. */
    readonly failure: string
  })[]
}

export async function presentOf(deps: ExplainDeps, { row, model }: RequestFacts): Promise<PresentState> {
  const { db, now } = deps
  const [user, token, aliases, prices] = await Promise.all([
    findUser(db, row.user_id),
    findToken(db, row.user_id, row.token_id),
    listEnabledAliases(db),
    pricesInForce(db, now()),
  ])
  const { names } = resolutionOf(new Map(aliases.map(alias => [alias.name, alias])), model)
  const listed = await listListingChannels(db, names, MAX_CHANNELS)
  const conditions = new Map((await deps.conditions()).map(each => [each.id, each.channel]))
  return {
    user,
    token,
    hasPrice: createPriceOf(prices, now())({ name: model, pricedAs: names }) !== undefined,
    channels: listed.map(channel => {
      const condition = conditions.get(channel.id)
      return { ...channel, coolingS: coolingOf(condition), failure: condition?.reason ?? '' }
    }),
  }
}

/** Seconds until a channel in cooldown may be tried again; 0 if it may be now. */
function coolingOf(condition: ChannelCondition['channel'] | undefined): number {
  return condition?.state === 'resting' ? Math.ceil(condition.againInMs / 1000) : 0
}

export const freeOf = (account: { unlimited: number; credited: number; posted: number } | undefined) =>
  account === undefined || account.unlimited === 1
    ? Number.POSITIVE_INFINITY
    : account.credited - account.posted
