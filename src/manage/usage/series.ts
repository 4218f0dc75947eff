import type { Actor } from '../../domain/actor.ts'
import { intervalStarts } from '../../domain/calendar.ts'
import { usdText } from '../../domain/money.ts'
import { isAdmin } from '../../domain/role.ts'
import { type Percentiles, timesOver } from '../../store/usage/log-times.ts'
import { namesOf } from '../../store/usage/names.ts'
import {
  groupRollups,
  ROLLUP_S,
  type RollupFilter,
  type RollupGroup,
  type RollupStep,
  type Sums,
  stepRollups,
  stepRollupsOf,
  sumRollups,
} from '../../store/usage/rollups.ts'
import type { insightContract } from '../contract/insight.ts'
import type { Query } from '../contract/route.ts'
import type { RouteCall } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'

const HOUR_S = 3600
const DAY_S = 24 * HOUR_S
const TOP = 6
const NOTHING: Sums = { requests: 0, failures: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0 }

export const figuresOf = ({ requests, failures, prompt_tokens, completion_tokens, cost }: Sums) => ({
  requests,
  failures,
  prompt_tokens,
  completion_tokens,
  cost: usdText(cost),
})

export const plus = (a: Sums, b: Sums, sign = 1): Sums => ({
  requests: a.requests + sign * b.requests,
  failures: a.failures + sign * b.failures,
  prompt_tokens: a.prompt_tokens + sign * b.prompt_tokens,
  completion_tokens: a.completion_tokens + sign * b.completion_tokens,
  cost: a.cost + sign * b.cost,
})

/** Adds the sums of fine steps to the points that contain them. */
function folded(starts: readonly number[], steps: readonly RollupStep[]): Sums[] {
  const points = starts.map(() => NOTHING)
  let place = 0
  for (const step of steps) {
    while (place + 1 < starts.length && (starts[place + 1] ?? 0) <= step.bucket) place += 1
    points[place] = plus(points[place] ?? NOTHING, step)
  }
  return points
}

const columnsOf = (points: readonly Sums[]) => ({
  requests: points.map(({ requests }) => requests),
  failures: points.map(({ failures }) => failures),
  prompt_tokens: points.map(({ prompt_tokens }) => prompt_tokens),
  completion_tokens: points.map(({ completion_tokens }) => completion_tokens),
  cost: points.map(({ cost }) => usdText(cost)),
})

/** Users see only their own figures, with any filter. */
const narrowed = (
  actor: Actor,
  query: Pick<Query<(typeof insightContract)['usageTop']>, 'user_id' | 'token_id' | 'channel_id' | 'model'>,
) => ({
  userId: isAdmin(actor) ? query.user_id : actor.id,
  tokenIds: query.token_id === undefined ? undefined : [query.token_id],
  channelId: isAdmin(actor) ? query.channel_id : undefined,
  model: query.model,
})

/** Usage per group, by descending cost, and the sum of the remaining groups. */
export const createTop =
  ({ db }: Pick<Deps, 'db'>) =>
  async ({ actor, query }: RouteCall<(typeof insightContract)['usageTop']>) => {
    const { by, limit = TOP } = query
    const from = Math.floor(query.from / ROLLUP_S) * ROLLUP_S
    const filter: RollupFilter = { ...narrowed(actor, query), from, to: query.to }
    const [totals, groups] = await Promise.all([
      sumRollups(db, filter),
      groupRollups(db, filter, { by, limit }),
    ])
    const names = await namesOf(
      db,
      by,
      groups.map(({ key }) => key),
    )
    const rest = groups.reduce((remainder, each) => plus(remainder, each, -1), totals)
    return {
      totals: figuresOf(totals),
      rows: groups.map(({ key, ...figures }) => ({
        key: String(key),
        name: names.get(key) ?? String(key),
        ...figuresOf(figures),
      })),
      other: rest.requests > 0 ? figuresOf(rest) : null,
    }
  }

/** Usage over time from quarter-hour sums, so that the cost does not grow with the number of requests. */
export const createSeries =
  ({ db }: Pick<Deps, 'db'>) =>
  async ({ actor, query }: RouteCall<(typeof insightContract)['usageSeries']>) => {
    const { step, tz, group_by: group, top = TOP } = query
    const starts = intervalStarts(query.from, query.to, step, tz)
    // Sums are per quarter hour: a period that starts within one starts at its beginning.
    const from = Math.floor((starts[0] ?? query.from) / ROLLUP_S) * ROLLUP_S
    const filter: RollupFilter = { ...narrowed(actor, query), from, to: query.to }
    // The coarsest steps that align with every point: days only if the zone's days are those of UTC.
    const fineS = [DAY_S, HOUR_S].find(each => starts.every(start => start % each === 0)) ?? ROLLUP_S
    const cut: RollupFilter = { ...filter, cuts: starts }
    const [totals, previous, series] = await Promise.all([
      sumRollups(db, filter),
      sumRollups(db, { ...filter, from: from - (query.to - from), to: from }),
      group ? seriesOf(group) : wholeSeries(),
    ])
    return { starts, totals: figuresOf(totals), previous: figuresOf(previous), series }

    async function wholeSeries() {
      const whole = folded(starts, await stepRollups(db, cut, fineS))
      return [{ key: 'all', name: 'all', ...columnsOf(whole) }]
    }

    async function seriesOf(by: RollupGroup) {
      const keys = (await groupRollups(db, filter, { by, limit: top })).map(({ key }) => key)
      const [steps, rows, names] = await Promise.all([
        stepRollups(db, cut, fineS),
        stepRollupsOf(db, cut, { by, stepS: fineS, keys }),
        namesOf(db, by, keys),
      ])
      const whole = folded(starts, steps)
      const byKey = Map.groupBy(rows, ({ key }) => key)
      const largest = keys.map(key => ({ key, points: folded(starts, byKey.get(key) ?? []) }))
      const rest = whole.map((point, place) =>
        largest.reduce((remainder, { points }) => plus(remainder, points[place] ?? NOTHING, -1), point),
      )
      const other = rest.some(({ requests }) => requests > 0)
        ? [{ key: 'other', name: 'other', ...columnsOf(rest) }]
        : []
      return [
        ...largest.map(({ key, points }) => ({
          key: String(key),
          name: names.get(key) ?? String(key),
          ...columnsOf(points),
        })),
        ...other,
      ]
    }
  }

const columnsOfTimes = (points: readonly (Percentiles | undefined)[]) => ({
  p50: points.map(point => point?.p50 ?? null),
  p95: points.map(point => point?.p95 ?? null),
})

/** Latency over time. */
export const createTimes =
  ({ db, engine }: Pick<Deps, 'db' | 'engine'>) =>
  async ({ actor, query }: RouteCall<(typeof insightContract)['usageTimes']>) => {
    const { model, ...narrowing } = narrowed(actor, query)
    const starts = intervalStarts(query.from, query.to, query.step, query.tz)
    const { points, most, isAll } = await timesOver(
      { db, engine },
      { ...narrowing, modelName: model },
      starts.map((from, index) => ({ from, to: starts[index + 1] ?? query.to })),
    )
    return {
      starts,
      first_ms: columnsOfTimes(points.map(({ firstMs }) => firstMs)),
      total_ms: columnsOfTimes(points.map(({ totalMs }) => totalMs)),
      most,
      is_all: isAll,
    }
  }
