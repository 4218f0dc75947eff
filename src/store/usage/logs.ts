import { sql } from 'kysely'
import { LOG_TYPE } from '../../domain/log.ts'
import type { Page, Paging } from '../engine/page.ts'
import type { LogRow, NewLog } from '../engine/schema.ts'
import type { Db } from '../engine/store.ts'
import {
  filtered,
  type LogPlace as LogCursor,
  type LogFilter,
  type LogStore,
  resolveFilter,
} from './log-filter.ts'

export { LOG_TYPE }

/** A log row without details. */
export const EMPTY_LOG = {
  token_id: 0,
  token_name: '',
  channel_id: 0,
  model_name: '',
  content: '',
  cost: 0,
  prompt_tokens: 0,
  completion_tokens: 0,
  use_time_ms: 0,
  is_stream: 0,
  address: '',
  request_id: '',
  upstream_request_id: '',
  other: '{}',
} as const satisfies Partial<NewLog>

export async function insertLog(
  db: Db,
  row: Pick<NewLog, 'created_time' | 'type' | 'user_id'> & Partial<NewLog>,
): Promise<void> {
  await db
    .insertInto('logs')
    .values({ ...EMPTY_LOG, ...row })
    .execute()
}

/** The maximum number of log rows that are counted or paged through. */
const MAX_COUNT = 100_000

/** A log row with the current names of its user and channel; null if deleted. */
export type LogWithNames = LogRow & { readonly username: string | null; readonly channel_name: string | null }

async function countLogs(store: LogStore, filter: LogFilter): Promise<number> {
  const { count } = await store.db
    .selectFrom(filtered(store, filter).matches.select('matches.id').limit(MAX_COUNT).as('counted'))
    .select(sql<number>`count(*)`.as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Where a row is: PostgreSQL looks only into partitions of its time. */
type RowPlace = Pick<LogRow, 'id' | 'created_time'>

/**
 * Reads whole rows for one page only; the rows before it are skipped in an index. Rows of one second are in the order in
 * which their requests began, because rejected and settled requests are written by different paths.
 */
export async function readLogs(db: Db, places: readonly RowPlace[]): Promise<LogWithNames[]> {
  if (places.length === 0) return []
  const times = places.map(({ created_time }) => created_time)
  return db
    .selectFrom('logs')
    .leftJoin('users', 'users.id', 'logs.user_id')
    .leftJoin('channels', 'channels.id', 'logs.channel_id')
    .selectAll('logs')
    .select(['users.username', 'channels.name as channel_name'])
    .where(
      'logs.id',
      'in',
      places.map(({ id }) => id),
    )
    .where('logs.created_time', '>=', Math.min(...times))
    .where('logs.created_time', '<=', Math.max(...times))
    .orderBy('logs.created_time', 'desc')
    .orderBy('logs.request_id', 'desc')
    .orderBy('logs.id', 'desc')
    .execute()
}

/** Newest first, by time and then by id: with several nodes, rows do not arrive in order of time. */
export async function listLogs(
  store: LogStore,
  requested: LogFilter,
  { page, pageSize }: Paging,
): Promise<Page<LogWithNames>> {
  const filter = await resolveFilter(store, requested)
  const start = (page - 1) * pageSize
  const ids =
    start < MAX_COUNT
      ? filtered(store, filter).newest.limit(pageSize).offset(start).execute()
      : Promise.resolve([])
  const [total, items] = await Promise.all([
    countLogs(store, filter),
    ids.then(page => readLogs(store.db, page)),
  ])
  return { items, total }
}

type LogWalk = { readonly rows: LogWithNames[]; readonly next: LogCursor | undefined }

/**
 * The next rows after a cursor, newest first, at the same speed at any depth. With conditions that no index supports, a
 * call may return fewer rows than requested, even none, and still a next cursor, because it tests a limited number of rows.
 */
export async function readLogsAfter(
  store: LogStore,
  requested: LogFilter,
  after: LogCursor | undefined,
  limit: number,
): Promise<LogWalk> {
  const filter = await resolveFilter(store, requested)
  const to = after === undefined ? filter.to : Math.min(filter.to ?? after.time, after.time)
  const { newest, reached } = filtered(store, { ...filter, to, after })
  const places = await newest.limit(limit).execute()
  const rows = await readLogs(store.db, places)
  const last = places.length === limit ? places.at(-1) : undefined
  if (last) return { rows, next: { time: last.created_time, id: last.id } }
  return { rows, next: await reached() }
}

type IdRange = { readonly after: number; readonly upTo: number; readonly limit: number }

/** The first rows of a range of ids, in order of their ids. */
export async function readLogsBetween(db: Db, { after, upTo, limit }: IdRange): Promise<LogWithNames[]> {
  const ids = await db
    .selectFrom('logs')
    .select(['id', 'created_time'])
    .where('id', '>', after)
    .where('id', '<=', upTo)
    .orderBy('id')
    .limit(limit)
    .execute()
  return (await readLogs(db, ids)).sort((a, b) => a.id - b.id)
}

export async function listTokenLogs(db: Db, tokenId: number, limit: number): Promise<LogWithNames[]> {
  const ids = await db
    .selectFrom('logs')
    .select(['id', 'created_time'])
    .where('token_id', '=', tokenId)
    .orderBy('created_time', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
  return readLogs(db, ids)
}
