import type { CanarySide } from '../../domain/canary.ts'
import { usdText } from '../../domain/money.ts'
import type { CanaryRow } from '../../store/engine/schema.ts'
import type { Db } from '../../store/engine/store.ts'
import { canarySums, canaryTimes, shadowTotals } from '../../store/records/canaries.ts'

/** Percentiles are computed over at most so many of the newest successful requests of a side. */
const MAX_TIMED = 10_000

const NOTHING = { requests: 0, errors: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0 }

function percentilesOf(values: readonly number[]) {
  if (values.length === 0) return null
  const sorted = values.toSorted((a, b) => a - b)
  const at = (percent: number) => sorted[Math.ceil((sorted.length * percent) / 100) - 1] ?? 0
  return { p50: at(50), p95: at(95) }
}

/** The results of both sides in one round (docs/reference/canary.md: Comparison). */
export async function compareSides(db: Db, { id }: Pick<CanaryRow, 'id'>, round: number) {
  const sums = await canarySums(db, id, round)
  async function sideOf(side: CanarySide) {
    const { requests, errors, prompt_tokens, completion_tokens, cost } =
      sums.find(row => row.side === side) ?? NOTHING
    const times = await canaryTimes(db, { canaryId: id, round, side }, MAX_TIMED)
    return {
      requests,
      errors,
      error_rate: requests === 0 ? null : errors / requests,
      prompt_tokens,
      completion_tokens,
      cost: usdText(cost),
      cost_per_request: requests === 0 ? null : usdText(Math.round(cost / requests)),
      timed_requests: times.length,
      latency_ms: percentilesOf(times.map(({ useTimeMs }) => useTimeMs)),
      first_token_ms: percentilesOf(times.flatMap(({ firstMs }) => firstMs ?? [])),
    }
  }
  return { round, canary: await sideOf('canary'), baseline: await sideOf('baseline') }
}

type ShadowSums = Awaited<ReturnType<typeof shadowTotals>>

export const presentShadow = ({ requests, cost, shadow_cost }: ShadowSums) => ({
  requests,
  cost: usdText(cost),
  shadow_cost: usdText(shadow_cost),
  difference: usdText(shadow_cost - cost),
})

export const shadowOf = async (db: Db, { id }: Pick<CanaryRow, 'id'>) =>
  presentShadow(await shadowTotals(db, id))
