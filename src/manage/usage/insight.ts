import { usdText } from '../../domain/money.ts'
import { isAdmin } from '../../domain/role.ts'
import { countListings, listChannelStates } from '../../store/records/channel-lists.ts'
import { pricesInForce } from '../../store/records/prices.ts'
import {
  groupRollups,
  ROLLUP_S,
  type RollupFilter,
  type Sums,
  stepRollupsOf,
} from '../../store/usage/rollups.ts'
import { sumTags } from '../../store/usage/tag-sums.ts'
import { presentCondition } from '../channels/channel-state.ts'
import { endpointTypes } from '../channels/endpoint-types.ts'
import { listServed } from '../channels/served.ts'
import type { insightContract } from '../contract/insight.ts'
import { createPriceOf, ownerOf } from '../money/pricing.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { createAttention } from './attention.ts'
import { createSeries, createTimes, createTop, figuresOf, plus } from './series.ts'

const HOUR_S = 3600
const DAY_S = 24 * HOUR_S
const MAX_MODELS = 10_000
const TAG_VALUES = 50
const NOTHING: Sums = { requests: 0, failures: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0 }

/** Usage figures and channel health (docs/reference/console.md: Insight). */
export function createInsightHandlers(deps: Deps): Handlers<typeof insightContract> {
  const { db, now, channels } = deps

  const lastDay = (): RollupFilter => {
    const to = Math.ceil((now() + 1) / ROLLUP_S) * ROLLUP_S
    return { from: to - DAY_S, to }
  }

  return {
    usageSeries: createSeries(deps),
    usageTop: createTop(deps),
    usageTimes: createTimes(deps),

    usageTags: async ({ actor, query }) => {
      const { from, to, name, limit = TAG_VALUES } = query
      const userId = isAdmin(actor) ? query.user_id : actor.id
      const { sums, isExact } = await sumTags(deps, { from, to, name, userId, limit })
      return { rows: sums.map(({ key, ...rest }) => ({ key, ...figuresOf(rest) })), is_exact: isExact }
    },

    channelHealth: async () => {
      const filter = lastDay()
      const states = await listChannelStates(db)
      const ids = states.map(({ id }) => id)
      const [hours, unready] = await Promise.all([
        stepRollupsOf(db, filter, { by: 'channel', stepS: HOUR_S }),
        channels.conditions(),
      ])
      const conditions = new Map(unready.map(each => [each.id, each]))
      const hoursOf = Map.groupBy(hours, ({ key }) => key)
      const firstHour = Math.floor(filter.from / HOUR_S) * HOUR_S
      return ids.map(id => {
        const condition = conditions.get(id)
        const used = hoursOf.get(id) ?? []
        // Thousands of channels may be idle; they have no figures.
        const strip = Array.from({ length: used.length > 0 ? 24 : 0 }, () => ({ requests: 0, failures: 0 }))
        for (const { bucket, requests, failures } of used) {
          const hour = strip[Math.min(23, Math.floor((bucket - firstHour) / HOUR_S))]
          if (!hour) continue
          hour.requests += requests
          hour.failures += failures
        }
        return {
          channel_id: id,
          ...presentCondition(condition?.channel, now()),
          keys: (condition?.keys ?? []).map(({ index, ...key }) => ({
            index,
            ...presentCondition(key, now()),
          })),
          ...figuresOf(used.reduce((sum, hour) => plus(sum, hour), NOTHING)),
          hours: strip,
        }
      })
    },

    modelOverview: async ({ actor }) => {
      const filter = { ...lastDay(), ...(isAdmin(actor) ? {} : { userId: actor.id }) }
      const [served, listings, sums, prices] = await Promise.all([
        listServed(db),
        countListings(db),
        groupRollups(db, filter, { by: 'model', limit: MAX_MODELS }),
        pricesInForce(db, now()),
      ])
      const priceOf = createPriceOf(prices, now())
      const sumsOf = new Map(sums.map(each => [each.key, each]))
      return served.map(model => {
        // An alias has the channels of its target; the last name of its resolution is the one that channels list.
        const listed = model.pricedAs.map(name => listings.get(name)).find(channels => channels !== undefined)
        const price = priceOf(model)
        const used = sumsOf.get(model.name) ?? NOTHING
        return {
          name: model.name,
          is_alias: !listings.has(model.name),
          owned_by: ownerOf(model),
          endpoint_types: endpointTypes(model.name, price),
          channels_on: listed?.on ?? 0,
          channels_all: (isAdmin(actor) ? listed?.all : listed?.on) ?? 0,
          is_priced: price !== undefined,
          requests: used.requests,
          failures: used.failures,
          cost: usdText(used.cost),
        }
      })
    },

    ...createAttention(deps),
  }
}
