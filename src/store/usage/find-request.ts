import { type RawBuilder, sql } from 'kysely'
import { LOG_TYPE } from '../../domain/log.ts'
import type { Engine } from '../engine/schema.ts'
import type { LogStore } from './log-filter.ts'
import { type LogWithNames, readLogs } from './logs.ts'

/** The newest rows that a search without an index of its own reads. */
const MAX_READ = 200_000
/** Shorter messages are parts of other texts, and shorter texts are parts of unrelated messages. */
const MIN_MESSAGE = 10
/** The requests with a code whose details are read. */
const MAX_CANDIDATES = 50
/** The rows before a request in which the failure of a channel is looked for. */
const MAX_BEFORE = 20_000

/** Undefined: of any user. */
type Owner = { readonly userId: number | undefined }

/** The position of a text in another; 0 if it does not occur. */
const positionOf = (engine: Engine, part: RawBuilder<unknown>, whole: RawBuilder<unknown>) =>
  engine === 'postgres' ? sql<number>`strpos(${whole}, ${part})` : sql<number>`instr(${whole}, ${part})`

async function newestOf(
  store: LogStore,
  rows: RawBuilder<unknown>,
  owner: Owner,
  condition: RawBuilder<unknown>,
): Promise<LogWithNames | undefined> {
  const [row] = await newestRowsOf(store, rows, owner, { condition, limit: 1 })
  return row
}

async function newestRowsOf(
  { db }: LogStore,
  rows: RawBuilder<unknown>,
  { userId }: Owner,
  { condition, limit }: { readonly condition: RawBuilder<unknown>; readonly limit: number },
): Promise<LogWithNames[]> {
  const owned = userId === undefined ? sql`true` : sql`user_id = ${userId}`
  const { rows: ids } = await sql<{ id: number; created_time: number }>`
    select id, created_time from (${rows} order by created_time desc, id desc limit ${sql.lit(MAX_READ)}) as newest
    where ${condition} and ${owned} order by created_time desc, id desc limit ${sql.lit(limit)}
  `.execute(db)
  return readLogs(db, ids)
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

/** Failed and rejected requests. A literal, because the engines recognize the partial index of the rare types only by it. */
const FAILURES = sql`type = ${sql.lit(LOG_TYPE.error)} and type <> ${sql.lit(LOG_TYPE.consume)}`

/** The newest failed or rejected request whose message is a part of the texts, or contains the text. */
export function findByMessage(
  store: LogStore,
  { text, texts }: { readonly text: string; readonly texts: string },
  owner: Owner,
) {
  const content = sql.ref('content')
  const fragment = text.trim().toLowerCase()
  const isInMessage =
    fragment.length < MIN_MESSAGE
      ? sql`false`
      : sql`${positionOf(store.engine, sql`${fragment}`, sql`lower(${content})`)} > 0`
  return newestOf(
    store,
    sql`select id, user_id, created_time, content, request_id from logs where ${FAILURES}`,
    owner,
    sql`request_id <> '' and (
      (length(content) >= ${sql.lit(MIN_MESSAGE)} and ${positionOf(store.engine, content, sql`${texts}`)} > 0)
      or ${isInMessage}
    )`,
  )
}

/** The newest failed or rejected requests whose details have this code, the gateway's or the provider's. */
export const listByCode = (store: LogStore, code: string, owner: Owner): Promise<LogWithNames[]> =>
  newestRowsOf(
    store,
    sql`select id, user_id, created_time, other, request_id from logs where ${FAILURES}`,
    owner,
    {
      condition: sql`request_id <> '' and ${positionOf(store.engine, sql`${`"${code}"`}`, sql.ref('other'))} > 0`,
      limit: MAX_CANDIDATES,
    },
  )

/** The number of failed and rejected requests with this code of the gateway since then. */
export async function countByCode(
  { db, engine }: LogStore,
  code: string,
  { userId, from }: Owner & { readonly from: number },
): Promise<number> {
  const owned = userId === undefined ? sql`true` : sql`user_id = ${userId}`
  const part = sql`${`"error_code":"${code}"`}`
  const { rows } = await sql<{ count: number }>`
    select coalesce(sum(requests), 0) as count from (
      select requests, user_id, other from logs where ${FAILURES} and created_time >= ${from}
      order by created_time desc, id desc limit ${sql.lit(MAX_READ)}
    ) as newest
    where ${positionOf(engine, part, sql.ref('other'))} > 0 and ${owned}
  `.execute(db)
  return Number(rows[0]?.count ?? 0)
}

/** The newest requests in a span of time that were sent to a channel and have several attempts, or a failed one. */
export async function findAttempts(
  store: LogStore,
  channelId: number,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<LogWithNames[]> {
  const part = sql`${`"channel":${channelId},"status":`}`
  const { rows: ids } = await sql<{ id: number; created_time: number }>`
    select id, created_time from (
      select id, created_time, other from logs where created_time >= ${from} and created_time <= ${to}
      order by created_time desc, id desc limit ${sql.lit(MAX_BEFORE)}
    ) as newest
    where ${positionOf(store.engine, part, sql.ref('other'))} > 0
    order by created_time desc, id desc limit ${sql.lit(MAX_CANDIDATES)}
  `.execute(store.db)
  return readLogs(store.db, ids)
}
