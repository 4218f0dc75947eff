import { sql } from 'kysely'
import { LOG_TYPE } from '../../domain/log.ts'
import { NANOS_PER_UNIT, unitsUsed } from '../../domain/money.ts'
import {
  filtered,
  isPattern,
  type LogFilter,
  type LogStore,
  MAX_SCANNED,
  resolveFilter,
} from './log-filter.ts'
import { ROLLUP_S, type RollupFilter, type Sums, sumRollups, sumUnits, type UnitSums } from './rollups.ts'

/** Counts of matches are exact up to this number. */
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

/** Rollups of several tokens are used only without further conditions: with them, too many rows would be read. */
const isSummedOf = ({ tokens, tokenId, channelId, modelName }: LogFilter) =>
  tokens === undefined ||
  (tokenId === undefined && (tokens.ids.length === 1 || (channelId === undefined && modelName === undefined)))

/** Whether the quarter-hour rollups can answer the filter. Their sums are exact for any number of rows. */
export function isInRollups(filter: LogFilter): boolean {
  const conditions = Object.entries(filter).filter(([, value]) => value !== undefined)
  return (
    !isPattern(filter.modelName) &&
    isSummedOf(filter) &&
    (filter.status === undefined || filter.status === 'any') &&
    conditions.every(([name]) => (ALSO_IN_ROLLUPS as readonly string[]).includes(name))
  )
}

const ZERO: Sums = { requests: 0, failures: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0 }

const columns = [
  sql<number>`coalesce(sum(requests), 0)`.as('requests'),
  sql<number>`coalesce(sum(case when type = ${sql.lit(LOG_TYPE.error)} then requests else 0 end), 0)`.as(
    'failures',
  ),
  sql<number>`coalesce(sum(prompt_tokens), 0)`.as('prompt_tokens'),
  sql<number>`coalesce(sum(completion_tokens), 0)`.as('completion_tokens'),
  sql<number>`coalesce(sum(cost), 0)`.as('cost'),
]

const sumRows = (store: LogStore, filter: LogFilter): Promise<Sums> =>
  filtered(store, { ...filter, status: filter.status ?? 'any' }, ALL_ROWS)
    .matches.select(columns)
    .executeTakeFirstOrThrow() as Promise<Sums>

/** Splits a span into whole quarter hours and the partial ones at both ends; `whole` is undefined if there are none. */
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
    ...rows.map(span => sumRows(store, { ...filter, ...span })),
  ])
  return parts.reduce(plus)
}

export type Totals = {
  readonly count: number
  /** There are more matches than counted. */
  readonly isMore: boolean
  /** Of all matches, or absent. */
  readonly sums: Sums | undefined
}

/** The number of matching requests and their sums: exact, or marked as a lower bound. */
export async function totalsOf(store: LogStore, requested: LogFilter): Promise<Totals> {
  const filter = await resolveFilter(store, requested)
  if (isInRollups(filter)) {
    const sums = await sumQuickly(store, filter)
    return { count: sums.requests, isMore: false, sums }
  }
  const { matches, reached } = filtered(store, filter)
  const { rows, ...sums } = (await store.db
    .selectFrom(
      matches
        .select([
          'matches.type',
          'matches.requests',
          'matches.prompt_tokens',
          'matches.completion_tokens',
          'matches.cost',
        ])
        .limit(MAX_EXACT + 1)
        .as('counted'),
    )
    .select([...columns, sql<number>`count(*)`.as('rows')])
    .executeTakeFirstOrThrow()) as Sums & { readonly rows: number }
  const isMore = rows > MAX_EXACT || (await reached()) !== undefined
  // A row may stand for several requests.
  return isMore
    ? { count: Math.min(MAX_EXACT, sums.requests), isMore, sums: undefined }
    : { count: sums.requests, isMore, sums }
}

/** Units that matching requests cost: summed exactly, rounded up once (docs/reference/money.md: Rounding). */
export async function unitsOf(store: LogStore, filter: LogFilter): Promise<number> {
  const { type: _always, ...requests } = await resolveFilter(store, filter)
  if (isInRollups(requests)) {
    const { rows, whole } = ends(requests)
    const parts = await Promise.all([
      whole ? sumUnits(store.db, rollupFilter(requests, whole)) : NOTHING,
      ...rows.map(span => unitsInRows(store, { ...requests, ...span })),
    ])
    return total(parts)
  }
  return total([await unitsInRows(store, requests, isInAnyRow(requests) ? MAX_SCANNED : ALL_ROWS)])
}

const NOTHING: UnitSums = { units: 0, rest: 0 }

const total = (parts: readonly UnitSums[]) =>
  parts.reduce((sum, { units }) => sum + Number(units), 0) +
  unitsUsed(parts.reduce((sum, { rest }) => sum + Number(rest), 0))

/** Whether no index can be used: the filter has a pattern, or a name that many tokens have. */
const isInAnyRow = ({ tokenName, tokens, modelName, username }: LogFilter) =>
  [tokenName, modelName, username].some(isPattern) || (tokenName !== undefined && tokens === undefined)

const unitsInRows = (store: LogStore, filter: LogFilter, maxScanned = ALL_ROWS): Promise<UnitSums> =>
  filtered(store, { ...filter, status: 'any' }, maxScanned)
    .matches.select([
      sql<number>`coalesce(sum(cost / ${sql.lit(NANOS_PER_UNIT)}), 0)`.as('units'),
      sql<number>`coalesce(sum(cost % ${sql.lit(NANOS_PER_UNIT)}), 0)`.as('rest'),
    ])
    .executeTakeFirstOrThrow()

/** The number of successful requests of a filter, and their input and output tokens. */
export async function countConsumed(store: LogStore, filter: LogFilter) {
  const consumed = { ...(await resolveFilter(store, filter)), type: LOG_TYPE.consume }
  const { requests, tokens } = await filtered(store, consumed, ALL_ROWS)
    .matches.select([
      sql<number>`count(*)`.as('requests'),
      sql<number>`coalesce(sum(prompt_tokens + completion_tokens), 0)`.as('tokens'),
    ])
    .executeTakeFirstOrThrow()
  return { requests: Number(requests), tokens: Number(tokens) }
}
