import { sql } from 'kysely'
import { byTokens, filtered, type LogFilter, type LogStore, told } from './log-filter.ts'
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

/** How long the newest requests of a filter took that were answered: whole, and up to their first bytes. */
export async function timesOf(store: LogStore, given: LogFilter): Promise<Times> {
  const filter = await byTokens(store, given)
  const { newest: found, reached } = filtered(store, { ...filter, status: filter.status ?? 'ok' })
  const newest = found.select([
    'found.use_time_ms as total_ms',
    sql<number | null>`${told.firstMs(store.engine)}`.as('first_ms'),
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
  const [count, toldCount] = [Number(first.count), Number(first.told)]
  const at = (by: 'total' | 'first', place: number) =>
    Number(rows.find(row => Number(row[`${by}_place`]) === place)?.[`${by}_ms`])
  const percentilesOf = (by: 'total' | 'first', n: number): Percentiles | undefined => {
    const { p50, p95 } = placesOf(n)
    return n === 0 ? undefined : { p50: at(by, p50), p95: at(by, p95) }
  }
  const isMore = async () =>
    count === MAX_EXACT && (await newest.limit(1).offset(MAX_EXACT).executeTakeFirst()) !== undefined
  return {
    count,
    isAll: !(await isMore()) && (await reached()) === undefined,
    firstMs: percentilesOf('first', toldCount),
    totalMs: percentilesOf('total', count),
  }
}
