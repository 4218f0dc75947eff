import { sql } from 'kysely'
import { LOG_TYPE } from '../../domain/log.ts'
import { NANOS_PER_UNIT, unitsUsed } from '../../domain/money.ts'
import { byTokens, filtered, isPattern, type LogFilter, type LogStore, MAX_TRIED } from './log-filter.ts'
import { ROLLUP_S, type RollupFilter, type Sums, sumRollups, sumUnits, type UnitSums } from './rollups.ts'

/** A count of matches is exact up to here. */
export const MAX_EXACT = 10_000
const FAR_FUTURE = 2 ** 40
const ALL_ROWS = Number.MAX_SAFE_INTEGER

const ALSO_IN_ROLLUPS = [
  'from',
  'to',
  'userId',
  'tokenId',
  'tokens',
  'channelId',
  'modelName',
  'status',
] as const

/** Several tokens are summed up with nothing else beside: sums that keep more than one token apart are read whole. */
const isSummedOf = ({ tokens, tokenId, channelId, modelName }: LogFilter) =>
  tokens === undefined ||
  (tokenId === undefined && (tokens.ids.length === 1 || (channelId === undefined && modelName === undefined)))

/** True where the quarter-hour sums know everything that is asked by: their sums are exact, and of any number of rows. */
export function isInRollups(filter: LogFilter): boolean {
  const asked = Object.entries(filter).filter(([, value]) => value !== undefined)
  return (
    !isPattern(filter.modelName) &&
    isSummedOf(filter) &&
    (filter.status === undefined || filter.status === 'any') &&
    asked.every(([name]) => (ALSO_IN_ROLLUPS as readonly string[]).includes(name))
  )
}

const ZERO: Sums = { requests: 0, failures: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0 }

const columns = [
  sql<number>`count(*)`.as('requests'),
  sql<number>`coalesce(sum(case when type = ${sql.lit(LOG_TYPE.error)} then 1 else 0 end), 0)`.as('failures'),
  sql<number>`coalesce(sum(prompt_tokens), 0)`.as('prompt_tokens'),
  sql<number>`coalesce(sum(completion_tokens), 0)`.as('completion_tokens'),
  sql<number>`coalesce(sum(cost), 0)`.as('cost'),
]

const sumRows = (store: LogStore, filter: LogFilter): Promise<Sums> =>
  filtered(store, { ...filter, status: filter.status ?? 'any' }, ALL_ROWS)
    .found.select(columns)
    .executeTakeFirstOrThrow() as Promise<Sums>

/** A stretch in three: whole quarter hours, and what is left of one at either end; undefined where nothing is. */
export function ends({ from = 0, to = FAR_FUTURE - 1 }: LogFilter) {
  const first = Math.ceil(from / ROLLUP_S) * ROLLUP_S
  const last = Math.floor((to + 1) / ROLLUP_S) * ROLLUP_S
  if (first >= last) return { rows: [{ from, to }], whole: undefined }
  const rows = [
    ...(from < first ? [{ from, to: first - 1 }] : []),
    ...(last <= to ? [{ from: last, to }] : []),
  ]
  return { rows, whole: { from: first, to: last } }
}

export const rollupFilter = (
  filter: LogFilter,
  { from, to }: { from: number; to: number },
): RollupFilter => ({
  from,
  to,
  userId: filter.userId,
  tokenIds: filter.tokenId === undefined ? filter.tokens?.ids : [filter.tokenId],
  channelId: filter.channelId,
  model: filter.modelName,
})

const plus = (a: Sums, b: Sums): Sums => ({
  requests: a.requests + b.requests,
  failures: a.failures + b.failures,
  prompt_tokens: a.prompt_tokens + b.prompt_tokens,
  completion_tokens: a.completion_tokens + b.completion_tokens,
  cost: a.cost + b.cost,
})

export async function sumQuickly(store: LogStore, filter: LogFilter): Promise<Sums> {
  const { rows, whole } = ends(filter)
  const parts = await Promise.all([
    whole ? sumRollups(store.db, rollupFilter(filter, whole)) : ZERO,
    ...rows.map(stretch => sumRows(store, { ...filter, ...stretch })),
  ])
  return parts.reduce(plus)
}

export type Totals = {
  readonly count: number
  /** There are more than were counted. */
  readonly isMore: boolean
  /** Of all matches, or absent. */
  readonly sums: Sums | undefined
}

/** How many requests match, and what they come to: exact, or said to be more. */
export async function totalsOf(store: LogStore, given: LogFilter): Promise<Totals> {
  const filter = await byTokens(store, given)
  if (isInRollups(filter)) {
    const sums = await sumQuickly(store, filter)
    return { count: sums.requests, isMore: false, sums }
  }
  const { found, reached } = filtered(store, filter)
  const sums = (await store.db
    .selectFrom(
      found
        .select(['found.type', 'found.prompt_tokens', 'found.completion_tokens', 'found.cost'])
        .limit(MAX_EXACT + 1)
        .as('counted'),
    )
    .select(columns)
    .executeTakeFirstOrThrow()) as Sums
  const isMore = sums.requests > MAX_EXACT || (await reached()) !== undefined
  return { count: Math.min(sums.requests, MAX_EXACT), isMore, sums: isMore ? undefined : sums }
}

/** Units that matching requests cost: summed exactly, rounded up once (docs/reference/money.md: Rounding). */
export async function unitsOf(store: LogStore, filter: LogFilter): Promise<number> {
  const { type: _always, ...asked } = await byTokens(store, filter)
  if (isInRollups(asked)) {
    const { rows, whole } = ends(asked)
    const parts = await Promise.all([
      whole ? sumUnits(store.db, rollupFilter(asked, whole)) : NOTHING,
      ...rows.map(stretch => unitsInRows(store, { ...asked, ...stretch })),
    ])
    return total(parts)
  }
  return total([await unitsInRows(store, asked, isInAnyRow(asked) ? MAX_TRIED : ALL_ROWS)])
}

const NOTHING: UnitSums = { units: 0, rest: 0 }

const total = (parts: readonly UnitSums[]) =>
  parts.reduce((sum, { units }) => sum + Number(units), 0) +
  unitsUsed(parts.reduce((sum, { rest }) => sum + Number(rest), 0))

/** What no index narrows: a pattern, or a name that many tokens have. */
const isInAnyRow = ({ tokenName, tokens, modelName, username }: LogFilter) =>
  [tokenName, modelName, username].some(isPattern) || (tokenName !== undefined && tokens === undefined)

const unitsInRows = (store: LogStore, filter: LogFilter, maxTried = ALL_ROWS): Promise<UnitSums> =>
  filtered(store, { ...filter, status: 'any' }, maxTried)
    .found.select([
      sql<number>`coalesce(sum(cost / ${sql.lit(NANOS_PER_UNIT)}), 0)`.as('units'),
      sql<number>`coalesce(sum(cost % ${sql.lit(NANOS_PER_UNIT)}), 0)`.as('rest'),
    ])
    .executeTakeFirstOrThrow()

/** Answered requests, and their tokens in and out, of a filter. */
export async function countConsumed(store: LogStore, filter: LogFilter) {
  const asked = { ...(await byTokens(store, filter)), type: LOG_TYPE.consume }
  const { requests, tokens } = await filtered(store, asked, ALL_ROWS)
    .found.select([
      sql<number>`count(*)`.as('requests'),
      sql<number>`coalesce(sum(prompt_tokens + completion_tokens), 0)`.as('tokens'),
    ])
    .executeTakeFirstOrThrow()
  return { requests: Number(requests), tokens: Number(tokens) }
}
