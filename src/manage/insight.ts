import { usdText } from '../domain/money.ts'
import { ROLE } from '../domain/role.ts'
import {
  disabledByGateway,
  openDoubts,
  rejectedKeys,
  singleChannelModels,
  tokensInNeed,
  unrefundedVideos,
} from '../store/attention.ts'
import { countListings, listChannelStates } from '../store/channel-lists.ts'
import { namesOf } from '../store/names.ts'
import { pricesInForce } from '../store/prices.ts'
import { groupRollups, ROLLUP_S, type RollupFilter, type Sums, stepRollupsOf } from '../store/rollups.ts'
import type { Handlers } from './call.ts'
import type { insightContract } from './contract/insight.ts'
import type { Answer } from './contract/route.ts'
import type { Condition, Deps } from './deps.ts'
import { endpointTypes } from './endpoint-types.ts'
import { createPriceOf, ownerOf } from './pricing.ts'
import { createSeries, createTimes, createTop, figuresOf } from './series.ts'
import { listServed } from './served.ts'

const HOUR_S = 3600
const DAY_S = 24 * HOUR_S
const WEEK_S = 7 * DAY_S
const MAX_MODELS = 10_000
const MAX_NEEDS = 50
/** As long as usage is kept by default. */
const UNREFUNDED_S = 90 * DAY_S
const NOTHING: Sums = { requests: 0, failures: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0 }

type Need = Answer<(typeof insightContract)['attention']>[number]
const URGENCY = { error: 0, warning: 1, info: 2 } as const

/** What is going on: figures, health, and what needs somebody (console, E). */
export function createInsightHandlers(deps: Deps): Handlers<typeof insightContract> {
  const { db, now, channels } = deps

  const lastDay = (): RollupFilter => {
    const to = Math.ceil((now() + 1) / ROLLUP_S) * ROLLUP_S
    return { from: to - DAY_S, to }
  }

  const tellCondition = ({ state, againInMs }: Condition) => ({
    state,
    resting_until: state === 'resting' ? now() + Math.ceil(againInMs / 1000) : null,
  })

  /** Of the channels themselves; only for administrators. */
  async function needsOfChannels(): Promise<Need[]> {
    const [off, keys, single, doubts, videos] = await Promise.all([
      disabledByGateway(db),
      rejectedKeys(db),
      singleChannelModels(db),
      openDoubts(db),
      unrefundedVideos(db, now() - UNREFUNDED_S),
    ])
    const resting = channels.conditions().filter(({ channel }) => channel.state === 'resting')
    const restingIds = resting.map(({ id }) => id)
    const restingNames = await namesOf(db, 'channel', restingIds)
    return [
      ...off.map(({ id, name, status_reason }) => ({
        kind: 'channel_disabled' as const,
        level: 'error' as const,
        target: `channel:${id}`,
        name,
        detail: status_reason,
        since: null,
      })),
      ...keys.map(({ id, name, position, reason, disabled_time }) => ({
        kind: 'key_rejected' as const,
        level: 'warning' as const,
        target: `channel:${id}`,
        name,
        detail: `key ${position}: ${reason}`,
        since: disabled_time,
      })),
      ...resting.map(({ id, channel }) => ({
        kind: 'channel_resting' as const,
        level: 'warning' as const,
        target: `channel:${id}`,
        name: restingNames.get(id) ?? String(id),
        detail: `rests for another ${Math.ceil(channel.againInMs / 1000)} s`,
        since: null,
      })),
      ...(doubts.count > 0
        ? [
            {
              kind: 'suspense_open' as const,
              level: 'warning' as const,
              target: 'ledger:suspense',
              name: String(doubts.count),
              detail: 'a provider may have billed for what nobody received',
              since: doubts.oldest,
            },
          ]
        : []),
      ...(videos.count > 0
        ? [
            {
              kind: 'video_unrefunded' as const,
              level: 'warning' as const,
              target: 'video:unrefunded',
              name: String(videos.count),
              detail: 'failed, paid, and not given back',
              since: videos.oldest,
            },
          ]
        : []),
      ...single.map(({ model, name }) => ({
        kind: 'model_single_channel' as const,
        level: 'info' as const,
        target: `model:${model}`,
        name: model,
        detail: `only ${name} serves it`,
        since: null,
      })),
    ]
  }

  async function unpricedModels(): Promise<Need[]> {
    const [served, prices] = await Promise.all([listServed(db), pricesInForce(db, now())])
    const priceOf = createPriceOf(prices, now())
    return served
      .filter(model => priceOf(model) === undefined)
      .map(({ name }) => ({
        kind: 'model_unpriced' as const,
        level: 'warning' as const,
        target: `model:${name}`,
        name,
        detail: 'has no price, so it is refused',
        since: null,
      }))
  }

  async function needsOfTokens(userId: number): Promise<Need[]> {
    const tokens = await tokensInNeed(db, userId, now(), now() + WEEK_S)
    return tokens.map(({ id, name, expired_time, credited, posted, unlimited }) => {
      const isLow = unlimited === 0 && credited > 0 && posted * 10 >= credited * 8
      return {
        kind: isLow ? ('token_low' as const) : ('token_expiring' as const),
        level: 'info' as const,
        target: `token:${id}`,
        name,
        detail: isLow
          ? `${Math.floor((posted / credited) * 100)} % of its quota is used`
          : 'expires within a week',
        since: isLow ? null : expired_time,
      }
    })
  }

  return {
    usageSeries: createSeries(deps),
    usageTop: createTop(deps),
    usageTimes: createTimes(deps),

    channelHealth: async () => {
      const filter = lastDay()
      const states = await listChannelStates(db)
      const ids = states.map(({ id }) => id)
      const [sums, hours] = await Promise.all([
        groupRollups(db, filter, 'channel', Math.max(1, ids.length)),
        stepRollupsOf(db, filter, HOUR_S, 'channel'),
      ])
      const conditions = new Map(channels.conditions().map(each => [each.id, each]))
      const sumsOf = new Map(sums.map(each => [each.key, each]))
      const hoursOf = Map.groupBy(hours, ({ key }) => key)
      const firstHour = Math.floor(filter.from / HOUR_S) * HOUR_S
      return ids.map(id => {
        const condition = conditions.get(id)
        const used = hoursOf.get(id) ?? []
        // Thousands of channels may be idle, and there is nothing to tell of those.
        const strip = Array.from({ length: used.length > 0 ? 24 : 0 }, () => ({ requests: 0, failures: 0 }))
        for (const { bucket, requests, failures } of used) {
          const hour = strip[Math.min(23, Math.floor((bucket - firstHour) / HOUR_S))]
          if (!hour) continue
          hour.requests += requests
          hour.failures += failures
        }
        return {
          channel_id: id,
          ...tellCondition(condition?.channel ?? { state: 'ready', againInMs: 0 }),
          keys: (condition?.keys ?? []).map(({ index, ...key }) => ({ index, ...tellCondition(key) })),
          ...figuresOf(sumsOf.get(id) ?? NOTHING),
          hours: strip,
        }
      })
    },

    modelOverview: async ({ actor }) => {
      const isAdmin = actor.role >= ROLE.admin
      const filter = { ...lastDay(), ...(isAdmin ? {} : { userId: actor.id }) }
      const [served, listings, sums, prices] = await Promise.all([
        listServed(db),
        countListings(db),
        groupRollups(db, filter, 'model', MAX_MODELS),
        pricesInForce(db, now()),
      ])
      const priceOf = createPriceOf(prices, now())
      const sumsOf = new Map(sums.map(each => [each.key, each]))
      return served.map(model => {
        // An alias has the channels of what it leads to; the last name of its way is the one that channels list.
        const listed = model.pricedAs.map(name => listings.get(name)).find(found => found !== undefined)
        const price = priceOf(model)
        const used = sumsOf.get(model.name) ?? NOTHING
        return {
          name: model.name,
          is_alias: !listings.has(model.name),
          owned_by: ownerOf(model),
          endpoint_types: endpointTypes(model.name, price),
          channels_on: listed?.on ?? 0,
          channels_all: (isAdmin ? listed?.all : listed?.on) ?? 0,
          is_priced: price !== undefined,
          requests: used.requests,
          failures: used.failures,
          cost: usdText(used.cost),
        }
      })
    },

    attention: async ({ actor }) => {
      const isAdmin = actor.role >= ROLE.admin
      const needs = await Promise.all([
        isAdmin ? needsOfChannels() : [],
        isAdmin ? unpricedModels() : [],
        needsOfTokens(actor.id),
      ])
      return needs
        .flat()
        .sort((a, b) => URGENCY[a.level] - URGENCY[b.level])
        .slice(0, MAX_NEEDS)
    },
  }
}
