import { sql } from 'kysely'
import {
  detailOf,
  filtered,
  type LogFilter,
  type LogStore,
  MAX_SCANNED,
  resolveFilter,
} from './log-filter.ts'
import { MAX_EXACT } from './log-sums.ts'

export type Percentiles = { readonly p50: number; readonly p95: number }

export type Times = {
  readonly count: number
  /** False if only the newest requests were read. */
  readonly isAll: boolean
  readonly firstMs: Percentiles | undefined
  readonly totalMs: Percentiles | undefined
}

/** The ranks of the percentiles among `n` sorted values, counted from 1. */
const ranksOf = (n: number) => ({ p50: Math.ceil(n / 2), p95: Math.ceil((n * 95) / 100) })
const isRankOf = (place: string, n: string) =>
  sql<boolean>`${sql.ref(place)} in ((${sql.ref(n)} + 1) / 2, (${sql.ref(n)} * 95 + 99) / 100)`

/** A row at one of the ranks, or at both; depending on the engine, integers are numbers or texts. */
type Ranked = Readonly<
  Record<'total_ms' | 'total_place' | 'first_place' | 'count' | 'timed', number | string>
> & { readonly first_ms: number | string | null }

function percentilesIn(rows: readonly Ranked[], by: 'total' | 'first'): Percentiles | undefined {
  const n = Number(rows[0]?.[by === 'total' ? 'count' : 'timed'] ?? 0)
  if (n === 0) return undefined
  const at = (place: number) => Number(rows.find(row => Number(row[`${by}_place`]) === place)?.[`${by}_ms`])
  const { p50, p95 } = ranksOf(n)
  return { p50: at(p50), p95: at(p95) }
}

/** Latency of the newest successful requests of a filter: in total, and to the first byte. */
export async function timesOf(store: LogStore, requested: LogFilter): Promise<Times> {
  const filter = await resolveFilter(store, requested)
  const { newest: matching, reached } = filtered(store, { ...filter, status: filter.status ?? 'ok' })
  const newest = matching.select([
    'matches.use_time_ms as total_ms',
    sql<number | null>`${detailOf.firstMs(store.engine)}`.as('first_ms'),
  ])
  const rows = await store.db
    // Materialized before the ranking: otherwise SQLite loses the sort order and sorts all rows.
    .with(
      name => name('newest').materialized(),
      () => newest.limit(MAX_EXACT),
    )
    .with('ranked', db =>
      db
        .selectFrom('newest')
        .select([
          'total_ms',
          'first_ms',
          sql<number>`row_number() over (order by total_ms)`.as('total_place'),
          sql<number>`row_number() over (order by first_ms nulls last)`.as('first_place'),
          sql<number>`count(*) over ()`.as('count'),
          sql<number>`count(first_ms) over ()`.as('timed'),
        ]),
    )
    .selectFrom('ranked')
    .selectAll()
    .where(of => of.or([isRankOf('total_place', 'count'), isRankOf('first_place', 'timed')]))
    .execute()
  const [first] = rows
  if (!first)
    return { count: 0, isAll: (await reached()) === undefined, firstMs: undefined, totalMs: undefined }
  const count = Number(first.count)
  const isMore = async () =>
    count === MAX_EXACT && (await newest.limit(1).offset(MAX_EXACT).executeTakeFirst()) !== undefined
  return {
    count,
    isAll: !(await isMore()) && (await reached()) === undefined,
    firstMs: percentilesIn(rows, 'first'),
    totalMs: percentilesIn(rows, 'total'),
  }
}

/** `from` is inclusive, `to` is exclusive. */
type TimeSpan = { readonly from: number; readonly to: number }
export type Point = { readonly firstMs: Percentiles | undefined; readonly totalMs: Percentiles | undefined }
type TimesOver = {
  readonly points: readonly Point[]
  /** The most requests, the newest ones, that were read of each span. */
  readonly most: number
  /** False if there may be more. */
  readonly isAll: boolean
}

/**
 * The same for each of several spans. The number of requests read of each is limited, so that the total cost is bounded for
 * any number of spans.
 */
export async function timesOver(
  store: LogStore,
  filter: LogFilter,
  spans: readonly TimeSpan[],
): Promise<TimesOver> {
  const most = Math.floor(MAX_SCANNED / Math.max(1, spans.length))
  const samples = spans.map(({ from, to }, span) =>
    filtered(store, { ...filter, status: 'ok', from, to: to - 1 }, most)
      .matches.select([
        sql.lit(span).as('span'),
        'matches.use_time_ms as total_ms',
        sql<number | null>`${detailOf.firstMs(store.engine)}`.as('first_ms'),
      ])
      .orderBy('matches.created_time', 'desc')
      .orderBy('matches.id', 'desc')
      .limit(most),
  )
  if (samples.length === 0) return { points: [], most, isAll: true }
  // Each arm of the union has its own order and limit, which SQLite accepts only in a subquery.
  const sampled = sql.join(
    samples.map(sample => sql`select * from (${sample}) as sample`),
    sql` union all `,
  )
  const { rows } = await sql<Ranked & { readonly span: number | string }>`
    select * from (
      select span, total_ms, first_ms,
        row_number() over (partition by span order by total_ms) as total_place,
        row_number() over (partition by span order by first_ms nulls last) as first_place,
        count(*) over (partition by span) as count,
        count(first_ms) over (partition by span) as timed
      from (${sampled}) as sampled
    ) as ranked
    where ${isRankOf('total_place', 'count')} or ${isRankOf('first_place', 'timed')}`.execute(store.db)
  const bySpan = Map.groupBy(rows, ({ span }) => Number(span))
  const points = spans.map((_, span) => {
    const ranked = bySpan.get(span) ?? []
    return { firstMs: percentilesIn(ranked, 'first'), totalMs: percentilesIn(ranked, 'total') }
  })
  const isNarrow =
    [filter.userId, filter.tokenId, filter.channelId, filter.modelName].filter(Boolean).length < 2
  return { points, most, isAll: isNarrow && rows.every(({ count }) => Number(count) < most) }
}
