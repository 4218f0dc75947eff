import { sql } from 'kysely'
import { LOG_TYPE } from '../domain/log.ts'
import { NANOS_PER_UNIT, unitsUsed } from '../domain/money.ts'
import type { Page, Paging } from './page.ts'
import type { LogRow, NewLog } from './schema.ts'
import type { Db } from './store.ts'

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
/** A pattern is looked for in the newest rows that the other filters leave, so that its cost has an end. */
const MAX_MATCHED = 100_000

export type LogFilter = {
  readonly userId?: number | undefined
  readonly type?: number | undefined
  /** Both moments belong to the stretch. */
  readonly from?: number | undefined
  readonly to?: number | undefined
  readonly channelId?: number | undefined
  readonly requestId?: string | undefined
  /** Exact, or a pattern in which `%` stands for any text. */
  readonly tokenName?: string | undefined
  readonly modelName?: string | undefined
  /** Only ever a pattern: one name is one id. */
  readonly username?: string | undefined
}

/** A log row with the names of today of what it points to; null where that is gone. */
export type LogWithNames = LogRow & { readonly username: string | null; readonly channel_name: string | null }

export const isPattern = (text: string | undefined): text is string => text?.includes('%') ?? false

/** `%` alone is a wildcard, everything else stands for itself, and case does not count, on either engine. */
export const matches = (column: string, pattern: string) =>
  sql<boolean>`lower(${sql.ref(column)}) like lower(${pattern.replace(/[\\_]/g, '\\$&')}) escape '\\'`

/** What an index finds: a moment, a number, a whole text. */
function exactly(db: Db, { tokenName, modelName, ...filter }: LogFilter) {
  let rows = db.selectFrom('logs').selectAll('logs')
  if (filter.userId !== undefined) rows = rows.where('user_id', '=', filter.userId)
  if (filter.type !== undefined) rows = rows.where('type', '=', filter.type)
  // As a constant, because that is how the engines recognise the index of the rare types.
  if (filter.type !== undefined && filter.type !== LOG_TYPE.consume)
    rows = rows.where('type', '<>', sql.lit(LOG_TYPE.consume))
  if (filter.from !== undefined) rows = rows.where('created_time', '>=', filter.from)
  if (filter.to !== undefined) rows = rows.where('created_time', '<=', filter.to)
  if (filter.channelId !== undefined) rows = rows.where('channel_id', '=', filter.channelId)
  if (filter.requestId !== undefined) rows = rows.where('request_id', '=', filter.requestId)
  if (tokenName !== undefined && !isPattern(tokenName)) rows = rows.where('token_name', '=', tokenName)
  if (modelName !== undefined && !isPattern(modelName)) rows = rows.where('model_name', '=', modelName)
  return rows
}

/** The rows that a filter leaves, as the table `found`. */
function filtered(db: Db, filter: LogFilter) {
  const { tokenName, modelName, username } = filter
  const rows = exactly(db, filter)
  const isBounded = [tokenName, modelName, username].some(isPattern)
  const reached = isBounded
    ? rows.orderBy('created_time', 'desc').orderBy('id', 'desc').limit(MAX_MATCHED)
    : rows
  let found = db.selectFrom(reached.as('found'))
  if (isPattern(tokenName)) found = found.where(matches('found.token_name', tokenName))
  if (isPattern(modelName)) found = found.where(matches('found.model_name', modelName))
  if (isPattern(username))
    found = found.where(({ exists, selectFrom }) =>
      exists(
        selectFrom('users')
          .select('users.id')
          .whereRef('users.id', '=', 'found.user_id')
          .where(matches('users.username', username)),
      ),
    )
  return found
}

async function countLogs(db: Db, filter: LogFilter): Promise<number> {
  const { count } = await db
    .selectFrom(filtered(db, filter).select('found.id').limit(MAX_COUNT).as('counted'))
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
    .where('logs.id', 'in', [...ids.map(row => row.id), -1])
    .orderBy('logs.created_time', 'desc')
    .orderBy('logs.id', 'desc')
    .execute()

/** Newest first, by the moment and then by id: in a fleet, rows do not arrive in the order of their moments. */
export async function listLogs(
  db: Db,
  filter: LogFilter,
  { page, pageSize }: Paging,
): Promise<Page<LogWithNames>> {
  const start = (page - 1) * pageSize
  const ids =
    start < MAX_COUNT
      ? filtered(db, filter)
          .select('found.id')
          .orderBy('found.created_time', 'desc')
          .orderBy('found.id', 'desc')
          .limit(pageSize)
          .offset(start)
          .execute()
      : Promise.resolve([])
  const [total, items] = await Promise.all([countLogs(db, filter), ids.then(found => withNames(db, found))])
  return { items, total }
}

/** Where a walk through the log stands: the row it has reached. */
export type LogPlace = { readonly time: number; readonly id: number }

/** The next rows of a walk, newest first: as quick at the end of the log as at its beginning. */
export async function walkLogs(
  db: Db,
  filter: LogFilter,
  after: LogPlace | undefined,
  limit: number,
): Promise<LogWithNames[]> {
  const until = after === undefined ? filter.to : Math.min(filter.to ?? after.time, after.time)
  let rows = filtered(db, { ...filter, to: until })
  if (after !== undefined)
    rows = rows.where(where =>
      where.or([
        where('found.created_time', '<', after.time),
        where.and([where('found.created_time', '=', after.time), where('found.id', '<', after.id)]),
      ]),
    )
  const ids = await rows
    .select('found.id')
    .orderBy('found.created_time', 'desc')
    .orderBy('found.id', 'desc')
    .limit(limit)
    .execute()
  return withNames(db, ids)
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

/** Units that the requests of a filter cost together: summed exactly and rounded up once (contract 4, money). */
export async function sumCost(db: Db, filter: LogFilter): Promise<number> {
  const cost = sql.ref('found.cost')
  // In units and what is left below one: sums of nanodollars over all rows could pass the largest exact number.
  const { units, rest } = await filtered(db, { ...filter, type: LOG_TYPE.consume })
    .select([
      sql<number>`coalesce(sum(${cost} / ${sql.lit(NANOS_PER_UNIT)}), 0)`.as('units'),
      sql<number>`coalesce(sum(${cost} % ${sql.lit(NANOS_PER_UNIT)}), 0)`.as('rest'),
    ])
    .executeTakeFirstOrThrow()
  return Number(units) + unitsUsed(Number(rest))
}

/** Requests, and their tokens in and out, of a filter. */
export async function countConsumed(db: Db, filter: LogFilter) {
  const { requests, tokens } = await filtered(db, { ...filter, type: LOG_TYPE.consume })
    .select([
      sql<number>`count(*)`.as('requests'),
      sql<number>`coalesce(sum(${sql.ref('found.prompt_tokens')} + ${sql.ref('found.completion_tokens')}), 0)`.as(
        'tokens',
      ),
    ])
    .executeTakeFirstOrThrow()
  return { requests: Number(requests), tokens: Number(tokens) }
}
