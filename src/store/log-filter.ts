import { type RawBuilder, sql } from 'kysely'
import { LOG_TYPE } from '../domain/log.ts'
import type { Engine } from './schema.ts'
import type { Db } from './store.ts'

/** Where log rows are: the engines read JSON in different words. */
export type LogStore = { readonly db: Db; readonly engine: Engine }

/** What rows are told apart by: one of each is asked for by its own name, several or all but some by these lists. */
export const LISTED = {
  model: 'model_name',
  channel: 'channel_id',
  token: 'token_id',
  user: 'user_id',
} as const
export type Lists = Partial<Readonly<Record<keyof typeof LISTED, readonly (string | number)[] | undefined>>>

export type LogFilter = {
  readonly userId?: number | undefined
  readonly type?: number | undefined
  /** Requests only: all of them, those that were answered, or those that failed. */
  readonly status?: 'any' | 'ok' | 'failed' | undefined
  /** Both moments belong to the stretch. */
  readonly from?: number | undefined
  readonly to?: number | undefined
  readonly channelId?: number | undefined
  readonly tokenId?: number | undefined
  readonly requestId?: string | undefined
  /** Exact, or a pattern in which `%` stands for any text. */
  readonly tokenName?: string | undefined
  readonly modelName?: string | undefined
  /** Only ever a pattern: one name is one id. */
  readonly username?: string | undefined
  readonly isStream?: boolean | undefined
  readonly address?: string | undefined
  /** Nanodollars. */
  readonly minCost?: number | undefined
  readonly minMs?: number | undefined
  readonly minFirstMs?: number | undefined
  readonly minAttempts?: number | undefined
  /** Where the counts come from. */
  readonly source?: string | undefined
  /** The model that was asked of the provider, where it is not the one that the client named. */
  readonly upstreamModel?: string | undefined
  readonly isCached?: boolean | undefined
  readonly errorCodes?: readonly string[] | undefined
  /** Any of several; tried on the rows that an index finds, like everything that is no equality. */
  readonly anyOf?: Lists | undefined
  readonly noneOf?: Lists | undefined
  /** Rows beyond this one only, on the way back in time. */
  readonly after?: LogPlace | undefined
}

/** Where a walk through the log stands: the row it has reached. */
export type LogPlace = { readonly time: number; readonly id: number }

/** What stands beside an index is tried on so many of the newest rows that the index finds, so that its cost has an end. */
export const MAX_TRIED = 20_000

export const isPattern = (text: string | undefined): text is string => text?.includes('%') ?? false

/** `%` alone is a wildcard, everything else stands for itself, and case does not count, on either engine. */
export const matches = (column: string, pattern: string) =>
  sql<boolean>`lower(${sql.ref(column)}) like lower(${pattern.replace(/[\\_]/g, '\\$&')}) escape '\\'`

/** A type that is none: what a row cannot be twice. */
const NO_TYPE = -1
const REQUESTS = [LOG_TYPE.consume, LOG_TYPE.error] as const

function typesOf({ type, status }: LogFilter): readonly number[] | undefined {
  const ofStatus =
    status === undefined
      ? undefined
      : status === 'any'
        ? REQUESTS
        : [status === 'ok' ? LOG_TYPE.consume : LOG_TYPE.error]
  if (type === undefined) return ofStatus
  return ofStatus === undefined || ofStatus.some(each => each === type) ? [type] : []
}

/** The one condition that an index finds rows by, newest first: the one that leaves the fewest. */
function foundBy(filter: LogFilter) {
  const exact = (text: string | undefined) => (isPattern(text) ? undefined : text)
  const candidates = [
    ['request_id', filter.requestId],
    ['token_id', filter.tokenId],
    ['token_name', exact(filter.tokenName)],
    ['user_id', filter.userId],
    ['channel_id', filter.channelId],
    ['model_name', exact(filter.modelName)],
  ] as const
  const [first, ...rest] = candidates.filter(([, value]) => value !== undefined)
  return { first, rest }
}

const trueFor = (conditions: readonly (RawBuilder<boolean> | undefined)[]) =>
  conditions.filter(each => each !== undefined)

/** What the JSON of a row says; null where it says nothing. */
export const told = {
  firstMs: (engine: Engine) =>
    engine === 'postgres' ? sql`(other::json ->> 'frt')::numeric` : sql`json_extract(other, '$.frt')`,
  attempts: (engine: Engine) =>
    engine === 'postgres'
      ? sql`json_array_length(other::json #> '{trace,attempts}')`
      : sql`json_array_length(other, '$.trace.attempts')`,
  cached: (engine: Engine) =>
    engine === 'postgres'
      ? sql`(other::json ->> 'cache_tokens')::numeric`
      : sql`json_extract(other, '$.cache_tokens')`,
  text: (engine: Engine, name: 'source' | 'upstream_model_name' | 'error_code') =>
    engine === 'postgres'
      ? sql`other::json ->> ${sql.lit(name)}`
      : sql`json_extract(other, ${sql.lit(`$.${name}`)})`,
} as const

const listed = (lists: Lists | undefined, how: 'in' | 'not in') =>
  Object.entries(lists ?? {}).map(([name, values]) =>
    values === undefined || values.length === 0
      ? undefined
      : sql<boolean>`${sql.ref(LISTED[name as keyof Lists])} ${sql.raw(how)} (${sql.join(values)})`,
  )

/** What no index finds, as conditions on the rows that one has found. */
function conditionsOf(engine: Engine, filter: LogFilter): RawBuilder<boolean>[] {
  const { tokenName, modelName, username, isStream, address, minCost, minMs } = filter
  const { minFirstMs, minAttempts, source, upstreamModel, isCached, errorCodes } = filter
  return trueFor([
    isPattern(tokenName) ? matches('token_name', tokenName) : undefined,
    isPattern(modelName) ? matches('model_name', modelName) : undefined,
    isPattern(username)
      ? sql<boolean>`exists (select 1 from users where users.id = user_id and ${matches('users.username', username)})`
      : undefined,
    isStream === undefined ? undefined : sql<boolean>`is_stream = ${isStream ? 1 : 0}`,
    address === undefined ? undefined : sql<boolean>`address = ${address}`,
    minCost === undefined ? undefined : sql<boolean>`cost >= ${minCost}`,
    minMs === undefined ? undefined : sql<boolean>`use_time_ms >= ${minMs}`,
    minFirstMs === undefined ? undefined : sql<boolean>`${told.firstMs(engine)} >= ${minFirstMs}`,
    // One attempt is not written down.
    minAttempts === undefined || minAttempts < 2
      ? undefined
      : sql<boolean>`${told.attempts(engine)} >= ${minAttempts}`,
    source === undefined ? undefined : sql<boolean>`${told.text(engine, 'source')} = ${source}`,
    upstreamModel === undefined
      ? undefined
      : sql<boolean>`coalesce(${told.text(engine, 'upstream_model_name')}, model_name) = ${upstreamModel}`,
    isCached === undefined
      ? undefined
      : sql<boolean>`(coalesce(${told.cached(engine)}, 0) > 0) = ${isCached ? sql`true` : sql`false`}`,
    errorCodes === undefined
      ? undefined
      : sql<boolean>`${told.text(engine, 'error_code')} in (${sql.join([...errorCodes])})`,
    ...listed(filter.anyOf, 'in'),
    ...listed(filter.noneOf, 'not in'),
  ])
}

/**
 * The rows that a filter leaves, as the table `found`. Where more is asked than one index answers, the newest `maxTried`
 * rows of that index are tried, and `reached` tells how far that went.
 */
export function filtered({ db, engine }: LogStore, filter: LogFilter, maxTried = MAX_TRIED) {
  const { first, rest } = foundBy(filter)
  const types = typesOf(filter)
  const isRare = types !== undefined && !types.includes(LOG_TYPE.consume)
  let rows = db.selectFrom('logs').selectAll('logs')
  if (first) rows = rows.where(first[0], '=', first[1] as never)
  if (filter.from !== undefined) rows = rows.where('created_time', '>=', filter.from)
  if (filter.to !== undefined) rows = rows.where('created_time', '<=', filter.to)
  const { after } = filter
  if (after !== undefined)
    rows = rows.where(
      sql<boolean>`(created_time < ${after.time} or (created_time = ${after.time} and id < ${after.id}))`,
    )
  const conditions = conditionsOf(engine, filter)
  for (const [column, value] of rest) conditions.push(sql<boolean>`${sql.ref(column)} = ${value}`)
  const [type = NO_TYPE] = types ?? []
  if (isRare && !first)
    rows = rows
      // One type at a time is in the order of its index.
      .where('type', '=', type)
      // As a constant, because that is how the engines recognise the index of the rare types.
      .where('type', '<>', sql.lit(LOG_TYPE.consume))
  else if (isRare) conditions.push(sql<boolean>`type = ${type}`)
  // Nearly all rows are requests: passing the others over costs nothing worth a bound.
  else if (types) rows = rows.where('type', 'in', [...types])

  const isTried = conditions.length > 0
  const newestFirst = rows.orderBy('created_time', 'desc').orderBy('id', 'desc')
  let found = db.selectFrom((isTried ? newestFirst.limit(maxTried) : rows).as('found'))
  for (const condition of conditions) found = found.where(condition)

  /** The last row that was tried, where not all of them were. */
  async function reached(): Promise<LogPlace | undefined> {
    if (!isTried) return undefined
    return newestFirst
      .clearSelect()
      .select(['created_time as time', 'id'])
      .limit(1)
      .offset(maxTried - 1)
      .executeTakeFirst()
  }
  return { found, reached }
}
