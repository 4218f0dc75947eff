import { type RawBuilder, sql } from 'kysely'
import { LOG_TYPE } from '../../domain/log.ts'
import type { Engine } from '../engine/schema.ts'
import type { LogStore } from './log-filter.ts'
import { type LogWithNames, readLogs } from './logs.ts'

/** The newest rows that a search without an index of its own reads. */
const MAX_READ = 200_000
/** Shorter messages are parts of other texts. */
const MIN_MESSAGE = 10

/** Undefined: of any user. */
type Owner = { readonly userId: number | undefined }

/** The position of a text in another; 0 if it does not occur. */
const positionOf = (engine: Engine, part: RawBuilder<unknown>, whole: RawBuilder<unknown>) =>
  engine === 'postgres' ? sql<number>`strpos(${whole}, ${part})` : sql<number>`instr(${whole}, ${part})`

async function newestOf(
  { db }: LogStore,
  rows: RawBuilder<unknown>,
  { userId }: Owner,
  condition: RawBuilder<unknown>,
): Promise<LogWithNames | undefined> {
  const owned = userId === undefined ? sql`true` : sql`user_id = ${userId}`
  const { rows: ids } = await sql<{ id: number }>`
    select id from (${rows} order by created_time desc, id desc limit ${sql.lit(MAX_READ)}) as newest
    where ${condition} and ${owned} order by created_time desc, id desc limit 1
  `.execute(db)
  const [row] = await readLogs(db, ids)
  return row
}

/** The newest request that a provider gave one of these IDs, in an answer or in the error of an attempt. */
export async function findByProviderId(
  store: LogStore,
  ids: readonly string[],
  owner: Owner,
): Promise<LogWithNames | undefined> {
  if (ids.length === 0) return undefined
  const { engine } = store
  const answered = await newestOf(
    store,
    // The partial index needs the literal condition.
    sql`select id, user_id, created_time from logs
        where upstream_request_id <> '' and upstream_request_id in (${sql.join([...ids])})`,
    owner,
    sql`true`,
  )
  if (answered) return answered
  const reported = ids.map(id => sql`${positionOf(engine, sql`${`"${id}"`}`, sql.ref('other'))} > 0`)
  return newestOf(
    store,
    sql`select id, user_id, created_time, other from logs
        where ${positionOf(engine, sql.lit('"request_id"'), sql.ref('other'))} > 0`,
    owner,
    sql`(${sql.join(reported, sql` or `)})`,
  )
}

/** The newest failed or rejected request whose message is a part of the text. */
export const findByMessage = (store: LogStore, text: string, owner: Owner) =>
  newestOf(
    store,
    // A literal, because the engines recognize the partial index of the rare types only by it.
    sql`select id, user_id, created_time, content, request_id from logs
        where type = ${sql.lit(LOG_TYPE.error)} and type <> ${sql.lit(LOG_TYPE.consume)}`,
    owner,
    sql`request_id <> '' and length(content) >= ${sql.lit(MIN_MESSAGE)}
        and ${positionOf(store.engine, sql.ref('content'), sql`${text}`)} > 0`,
  )
