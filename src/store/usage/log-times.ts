import { sql } from 'kysely'
import { byTokens, describeFilter, filtered, type LogFilter, type LogStore, MAX_TRIED } from './log-filter.ts'
import { MAX_EXACT } from './log-sums.ts'

/** Half of the requests took no longer than `p50`, and nineteen of twenty no longer than `p95`. */
export type Percentiles = { readonly p50: number; readonly p95: number }

export type Times = {
  readonly count: number
  /** False where only the newest were looked at. */
  readonly isAll: boolean
  readonly firstMs: Percentiles | undefined
  readonly totalMs: Percentiles | undefined
}

/** Places of the two in an order of `n`, counted from 1. */
const placesOf = (n: number) => ({ p50: Math.ceil(n / 2), p95: Math.ceil((n * 95) / 100) })
const isPlaceOf = (place: string, n: string) =>
  sql<boolean>`${sql.ref(place)} in ((${sql.ref(n)} + 1) / 2, (${sql.ref(n)} * 95 + 99) / 100)`

/** A row at one of the places, or at both; the engines tell whole numbers as numbers or as texts. */
type Ranked = Readonly<
  Record<'total_ms' | 'total_place' | 'first_place' | 'count' | 'told', number | string>
> & { readonly first_ms: number | string | null }

function percentilesIn(rows: readonly Ranked[], by: 'total' | 'first'): Percentiles | undefined {
  const n = Number(rows[0]?.[by === 'total' ? 'count' : 'told'] ?? 0)
  if (n === 0) return undefined
  const at = (place: number) => Number(rows.find(row => Number(row[`${by}_place`]) === place)?.[`${by}_ms`])
  const { p50, p95 } = placesOf(n)
  return { p50: at(p50), p95: at(p95) }
}

/** How long the newest requests of a filter took that were answered: whole, and up to their first bytes. */
export async function timesOf(store: LogStore, given: LogFilter): Promise<Times> {
  const filter = await byTokens(store, given)
  const { newest: found, reached } = filtered(store, { ...filter, status: filter.status ?? 'ok' })
  const newest = found.select([
    'found.use_time_ms as total_ms',
    sql<number | null>`${describeFilter.firstMs(store.engine)}`.as('first_ms'),
  ])
  const rows = await store.db
    // Found first and ranked then: else SQLite drops what they are ordered by before it has used it, and sorts them all.
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
          sql<number>`count(first_ms) over ()`.as('told'),
        ]),
    )
    .selectFrom('ranked')
    .selectAll()
    .where(of => of.or([isPlaceOf('total_place', 'count'), isPlaceOf('first_place', 'told')]))
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

/** From the first moment on, and before the second. */
export type Stretch = { readonly from: number; readonly to: number }
export type Point = { readonly firstMs: Percentiles | undefined; readonly totalMs: Percentiles | undefined }
export type TimesOver = {
  readonly points: readonly Point[]
  /** How many of the newest requests of each stretch were looked at, at most. */
  readonly most: number
  /** False where there may be more. */
  readonly isAll: boolean
}

/**
 * The same for each of several stretches: of as many of their newest requests as leave the whole with an end to its cost,
 * however many stretches there are.
 */
export async function timesOver(
  store: LogStore,
  filter: LogFilter,
  stretches: readonly Stretch[],
): Promise<TimesOver> {
  const most = Math.floor(MAX_TRIED / Math.max(1, stretches.length))
  const samples = stretches.map(({ from, to }, stretch) =>
    filtered(store, { ...filter, status: 'ok', from, to: to - 1 }, most)
      .found.select([
        sql.lit(stretch).as('stretch'),
        'found.use_time_ms as total_ms',
        sql<number | null>`${describeFilter.firstMs(store.engine)}`.as('first_ms'),
      ])
      .orderBy('found.created_time', 'desc')
      .orderBy('found.id', 'desc')
      .limit(most),
  )
  if (samples.length === 0) return { points: [], most, isAll: true }
  // An order and an end of its own is only for a query in brackets, which SQLite knows as one to select from.
  const sampled = sql.join(
    samples.map(sample => sql`select * from (${sample}) as sample`),
    sql` union all `,
  )
  const { rows } = await sql<Ranked & { readonly stretch: number | string }>`
    select * from (
      select stretch, total_ms, first_ms,
        row_number() over (partition by stretch order by total_ms) as total_place,
        row_number() over (partition by stretch order by first_ms nulls last) as first_place,
        count(*) over (partition by stretch) as count,
        count(first_ms) over (partition by stretch) as told
      from (${sampled}) as sampled
    ) as ranked
    where ${isPlaceOf('total_place', 'count')} or ${isPlaceOf('first_place', 'told')}`.execute(store.db)
  const byStretch = Map.groupBy(rows, ({ stretch }) => Number(stretch))
  const points = stretches.map((_, stretch) => {
    const ranked = byStretch.get(stretch) ?? []
    return { firstMs: percentilesIn(ranked, 'first'), totalMs: percentilesIn(ranked, 'total') }
  })
  const isNarrow =
    [filter.userId, filter.tokenId, filter.channelId, filter.modelName].filter(Boolean).length < 2
  return { points, most, isAll: isNarrow && rows.every(({ count }) => Number(count) < most) }
}
