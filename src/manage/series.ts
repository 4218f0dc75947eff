import { stretches } from '../domain/calendar.ts'
import { usdText } from '../domain/money.ts'
import { ROLE } from '../domain/role.ts'
import { namesOf } from '../store/names.ts'
import {
  groupRollups,
  ROLLUP_S,
  type RollupFilter,
  type RollupGroup,
  type Step,
  type Sums,
  stepRollups,
  stepRollupsOf,
  sumRollups,
} from '../store/rollups.ts'
import type { Call } from './call.ts'
import type { insightContract } from './contract/insight.ts'
import type { Deps } from './deps.ts'

const HOUR_S = 3600
const TOP = 6
const NOTHING: Sums = { requests: 0, failures: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0 }

export const figuresOf = ({ requests, failures, prompt_tokens, completion_tokens, cost }: Sums) => ({
  requests,
  failures,
  prompt_tokens,
  completion_tokens,
  cost: usdText(cost),
})

const plus = (a: Sums, b: Sums, sign = 1): Sums => ({
  requests: a.requests + sign * b.requests,
  failures: a.failures + sign * b.failures,
  prompt_tokens: a.prompt_tokens + sign * b.prompt_tokens,
  completion_tokens: a.completion_tokens + sign * b.completion_tokens,
  cost: a.cost + sign * b.cost,
})

/** Sums of fine steps, put into the stretches they fall in. */
function folded(starts: readonly number[], steps: readonly Step[]): Sums[] {
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

/** What was used over time, from the quarter-hour sums: as quick for ten million requests as for ten. */
export const createSeries =
  ({ db }: Pick<Deps, 'db'>) =>
  async ({ actor, query }: Call<(typeof insightContract)['usageSeries']>) => {
    const { step, tz, group_by: group, top = TOP } = query
    const starts = stretches(query.from, query.to, step, tz)
    // Sums are by the quarter hour: a stretch that begins between two of them begins at the one before.
    const from = Math.floor((starts[0] ?? query.from) / ROLLUP_S) * ROLLUP_S
    const filter: RollupFilter = {
      from,
      to: query.to,
      userId: actor.role >= ROLE.admin ? query.user_id : actor.id,
      tokenId: query.token_id,
      channelId: actor.role >= ROLE.admin ? query.channel_id : undefined,
      model: query.model,
    }
    const isOnTheHour = starts.every(start => start % HOUR_S === 0)
    const fineS = isOnTheHour ? HOUR_S : ROLLUP_S
    const [steps, totals, previous, groups] = await Promise.all([
      stepRollups(db, filter, fineS),
      sumRollups(db, filter),
      sumRollups(db, { ...filter, from: from - (query.to - from), to: from }),
      group ? groupRollups(db, filter, group, top) : [],
    ])
    const whole = folded(starts, steps)
    const series = group
      ? await seriesOf(
          group,
          groups.map(({ key }) => key),
        )
      : [{ key: 'all', name: 'all', ...columnsOf(whole) }]
    return { starts, totals: figuresOf(totals), previous: figuresOf(previous), series }

    async function seriesOf(by: RollupGroup, keys: readonly (string | number)[]) {
      const [rows, names] = await Promise.all([
        stepRollupsOf(db, filter, fineS, by, keys),
        namesOf(db, by, keys),
      ])
      const byKey = Map.groupBy(rows, ({ key }) => key)
      const named = keys.map(key => ({ key, points: folded(starts, byKey.get(key) ?? []) }))
      const rest = whole.map((point, place) =>
        named.reduce((left, { points }) => plus(left, points[place] ?? NOTHING, -1), point),
      )
      const other = rest.some(({ requests }) => requests > 0)
        ? [{ key: 'other', name: 'other', ...columnsOf(rest) }]
        : []
      return [
        ...named.map(({ key, points }) => ({
          key: String(key),
          name: names.get(key) ?? String(key),
          ...columnsOf(points),
        })),
        ...other,
      ]
    }
  }
