import { type RawBuilder, sql } from 'kysely'
import { LOG_TYPE } from '../../domain/log.ts'
import { NO_CHANNEL } from '../../domain/rejection.ts'
import { detailOf, filtered, type Lists, type LogFilter, type LogStore, resolveFilter } from './log-filter.ts'
import { ends, isInRollups, MAX_EXACT, rollupFilter, sumQuickly } from './log-sums.ts'
import { groupRollups, isFolded, type RollupGroup } from './rollups.ts'

/** The dimensions of the facets: the field of the filter that selects one value, and the column. */
const FACETS = {
  model: { filter: 'modelName', column: 'model_name' },
  channel: { filter: 'channelId', column: 'channel_id' },
  token: { filter: 'tokenId', column: 'token_id' },
  user: { filter: 'userId', column: 'user_id' },
} as const satisfies Record<RollupGroup, { filter: keyof LogFilter; column: string }>

export type Facet = RollupGroup | 'status' | 'error'
type FacetValue = { readonly key: string | number; readonly count: number }
type FacetValues = {
  readonly values: readonly FacetValue[]
  /** False if only the newest matches were counted. */
  readonly isExact: boolean
}

/** Groups at both ends of a span are added to those of its whole quarter hours, so none may be missing. */
const ALL_GROUPS = 1_000_000

const sortedByCount = (values: readonly FacetValue[], limit: number) =>
  values.toSorted((a, b) => b.count - a.count || String(a.key).localeCompare(String(b.key))).slice(0, limit)

async function countRows({
  store,
  filter,
  key,
  maxRows,
}: {
  store: LogStore
  filter: LogFilter
  /** The expression that is counted by. */
  key: RawBuilder<unknown>
  maxRows: number
}): Promise<FacetValues> {
  const { matches, newest, reached } = filtered(
    store,
    filter,
    maxRows === Infinity ? Number.MAX_SAFE_INTEGER : undefined,
  )
  const keyColumn = sql<string | number>`${key}`.as('key')
  const counted =
    maxRows === Infinity
      ? matches.select([keyColumn, 'matches.requests'])
      : newest.select([keyColumn, 'matches.requests']).limit(maxRows + 1)
  const groups = await store.db
    .selectFrom(counted.as('counted'))
    .select(['key', sql<number>`sum(requests)`.as('count'), sql<number>`count(*)`.as('rows')])
    .groupBy('key')
    .execute()
  const rows = groups.reduce((sum, group) => sum + Number(group.rows), 0)
  return {
    values: groups.map(({ key, count }) => ({ key, count: Number(count) })),
    isExact: rows <= maxRows && (maxRows === Infinity || (await reached()) === undefined),
  }
}

async function countRollups(store: LogStore, filter: LogFilter, facet: RollupGroup, limit: number) {
  const { rows, whole } = ends(filter)
  const { column } = FACETS[facet]
  const most = rows.length > 0 ? ALL_GROUPS : limit
  const [groups, ...edges] = await Promise.all([
    whole
      ? groupRollups(store.db, rollupFilter(filter, whole), { by: facet, limit: most, order: 'requests' })
      : [],
    ...rows.map(span =>
      countRows({ store, filter: { ...filter, ...span }, key: sql.ref(column), maxRows: Infinity }),
    ),
  ])
  const counts = new Map(groups.map(({ key, requests }) => [key, requests]))
  for (const { key, count } of edges.flatMap(({ values }) => values))
    counts.set(key, (counts.get(key) ?? 0) + count)
  return [...counts].map(([key, count]) => ({ key, count }))
}

async function countStatuses(store: LogStore, filter: LogFilter): Promise<FacetValues> {
  if (isInRollups(filter)) {
    const { requests, failures } = await sumQuickly(store, filter)
    const hasRejected = filter.channelId === undefined || filter.channelId === NO_CHANNEL
    const rejected = hasRejected ? await sumQuickly(store, { ...filter, channelId: NO_CHANNEL }) : undefined
    const rejections = rejected?.failures ?? 0
    const values = [
      { key: 'ok', count: requests - failures },
      { key: 'failed', count: failures - rejections },
      ...(rejections > 0 ? [{ key: 'rejected', count: rejections }] : []),
    ]
    return { values, isExact: true }
  }
  const key = sql`case when type <> ${sql.lit(LOG_TYPE.error)} then 'ok'
    when channel_id = ${sql.lit(NO_CHANNEL)} then 'rejected' else 'failed' end`
  return countRows({ store, filter, key, maxRows: MAX_EXACT })
}

/** Undefined if no list remains, because a filter with lists cannot be answered from rollups. */
function without(lists: Lists | undefined, facet: RollupGroup): Lists | undefined {
  const others = { ...lists, [facet]: undefined }
  return Object.values(others).some(values => values !== undefined) ? others : undefined
}

/**
 * The values of a facet with their numbers of requests, the most frequent first. A value of the same facet that is already
 * selected does not narrow the list, so that alternatives stay visible.
 */
export async function facetOf(
  store: LogStore,
  requested: LogFilter,
  facet: Facet,
  limit: number,
): Promise<FacetValues> {
  if (facet === 'status') {
    const { values, isExact } = await countStatuses(
      store,
      await resolveFilter(store, { ...requested, status: 'any' }),
    )
    return { values: sortedByCount(values, limit), isExact }
  }
  if (facet === 'error') {
    const filter = await resolveFilter(store, {
      ...requested,
      type: LOG_TYPE.error,
      status: undefined,
      errorCodes: undefined,
    })
    const key = sql`coalesce(${detailOf.text(store.engine, 'error_code')}, '')`
    const { values, isExact } = await countRows({ store, filter, key, maxRows: MAX_EXACT })
    return {
      values: sortedByCount(
        values.filter(each => each.key !== ''),
        limit,
      ),
      isExact,
    }
  }
  const filter = await resolveFilter(store, {
    ...requested,
    status: requested.status ?? 'any',
    [FACETS[facet].filter]: undefined,
    anyOf: without(requested.anyOf, facet),
    noneOf: without(requested.noneOf, facet),
    // A token or user is selected by its id or by its name.
    ...(facet === 'token' && { tokenName: undefined }),
    ...(facet === 'user' && { username: undefined }),
  })
  const { whole } = ends(filter)
  if (isInRollups(filter) && (!whole || isFolded(rollupFilter(filter, whole), facet)))
    return { values: sortedByCount(await countRollups(store, filter, facet, limit), limit), isExact: true }
  const { column } = FACETS[facet]
  const { values, isExact } = await countRows({ store, filter, key: sql.ref(column), maxRows: MAX_EXACT })
  return { values: sortedByCount(values, limit), isExact }
}
