import { sql } from 'kysely'
import { LOG_TYPE } from '../../domain/log.ts'
import { listed, type Page, type Paging } from '../engine/page.ts'
import type { LogRow, NewLog } from '../engine/schema.ts'
import type { Db } from '../engine/store.ts'
import { byTokens, filtered, type LogFilter, type LogPlace, type LogStore } from './log-filter.ts'

export { LOG_TYPE }

const EMPTY = {
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
    .values({ ...EMPTY, ...row })
    .execute()
}

/** A count of log rows stops here, and so do the pages. */
const MAX_COUNT = 100_000

/** A log row with the names of today of what it points to; null where that is gone. */
export type LogWithNames = LogRow & { readonly username: string | null; readonly channel_name: string | null }

async function countLogs(store: LogStore, filter: LogFilter): Promise<number> {
  const { count } = await store.db
    .selectFrom(filtered(store, filter).found.select('found.id').limit(MAX_COUNT).as('counted'))
    .select(sql<number>`count(*)`.as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Whole rows are read for one page only; what precedes it is a walk in an index. */
const withNames = (db: Db, ids: readonly { readonly id: number }[]): Promise<LogWithNames[]> =>
  db
    .selectFrom('logs')
    .leftJoin('users', 'users.id', 'logs.user_id')
    .leftJoin('channels', 'channels.id', 'logs.channel_id')
    .selectAll('logs')
    .select(['users.username', 'channels.name as channel_name'])
    .where('logs.id', 'in', listed(ids.map(row => row.id)))
    .orderBy('logs.created_time', 'desc')
    .orderBy('logs.id', 'desc')
    .execute()

/** Newest first, by the moment and then by id: in a fleet, rows do not arrive in the order of their moments. */
export async function listLogs(
  store: LogStore,
  given: LogFilter,
  { page, pageSize }: Paging,
): Promise<Page<LogWithNames>> {
  const filter = await byTokens(store, given)
  const start = (page - 1) * pageSize
  const ids =
    start < MAX_COUNT
      ? filtered(store, filter).newest.limit(pageSize).offset(start).execute()
      : Promise.resolve([])
  const [total, items] = await Promise.all([
    countLogs(store, filter),
    ids.then(found => withNames(store.db, found)),
  ])
  return { items, total }
}

export type LogWalk = { readonly rows: LogWithNames[]; readonly next: LogPlace | undefined }

/**
 * The next rows of a walk, newest first: as quick at the end of the log as at its beginning. With conditions that no index
 * answers, a step may find fewer rows than asked for, even none, and still lead on: it has tried as many as it may.
 */
export async function walkLogs(
  store: LogStore,
  given: LogFilter,
  after: LogPlace | undefined,
  limit: number,
): Promise<LogWalk> {
  const filter = await byTokens(store, given)
  const to = after === undefined ? filter.to : Math.min(filter.to ?? after.time, after.time)
  const { newest, reached } = filtered(store, { ...filter, to, after })
  const rows = await withNames(store.db, await newest.limit(limit).execute())
  const last = rows.length === limit ? rows.at(-1) : undefined
  if (last) return { rows, next: { time: last.created_time, id: last.id } }
  return { rows, next: await reached() }
}

export async function listTokenLogs(db: Db, tokenId: number, limit: number): Promise<LogWithNames[]> {
  const ids = await db
    .selectFrom('logs')
    .select('id')
    .where('token_id', '=', tokenId)
    .orderBy('created_time', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
  return withNames(db, ids)
}
