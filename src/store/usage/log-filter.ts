import { type RawBuilder, sql } from 'kysely'
import { LOG_TYPE } from '../../domain/log.ts'
import { NO_CHANNEL } from '../../domain/rejection.ts'
import { requestTime } from '../../domain/request-time.ts'
import type { Engine, LogRow } from '../engine/schema.ts'
import type { Db } from '../engine/store.ts'
import { tokensNamed } from './token-names.ts'

/** The store with its engine: the engines differ in their JSON functions. */
export type LogStore = { readonly db: Db; readonly engine: Engine }

/** The columns of filters by list: any of several values, or none of them. A filter for one value has its own field. */
const LIST_COLUMNS = {
  model: 'model_name',
  channel: 'channel_id',
  token: 'token_id',
  user: 'user_id',
} as const
export type Lists = Partial<
  Readonly<Record<keyof typeof LIST_COLUMNS, readonly (string | number)[] | undefined>>
>

export type LogFilter = {
  readonly userId?: number | undefined
  readonly type?: number | undefined
  /** Requests only: all, the successful, those that a channel failed, or those that the gateway rejected. */
  readonly status?: 'any' | 'ok' | 'failed' | 'rejected' | undefined
  /** Both times are inclusive. */
  readonly from?: number | undefined
  readonly to?: number | undefined
  readonly channelId?: number | undefined
  readonly tokenId?: number | undefined
  readonly requestId?: string | undefined
  /** Exact, or a pattern in which `%` matches any text. */
  readonly tokenName?: string | undefined
  readonly modelName?: string | undefined
  /** Always a pattern: a single name is looked up as an id. */
  readonly username?: string | undefined
  readonly isStream?: boolean | undefined
  readonly address?: string | undefined
  /** Nanodollars. */
  readonly minCost?: number | undefined
  readonly minMs?: number | undefined
  readonly minFirstMs?: number | undefined
  readonly minAttempts?: number | undefined
  /** The source of the token counts. */
  readonly source?: string | undefined
  /** The model that was sent to the provider. */
  readonly upstreamModel?: string | undefined
  readonly isCached?: boolean | undefined
  readonly errorCodes?: readonly string[] | undefined
  readonly tag?: { readonly name: string; readonly value: string } | undefined
  readonly anyOf?: Lists | undefined
  readonly noneOf?: Lists | undefined
  /** The tokens that have or had the requested name (`resolveFilter`). */
  readonly tokens?: Tokens | undefined
  /** Only rows older than this one. */
  readonly after?: LogPlace | undefined
}

export type Tokens = {
  readonly ids: readonly number[]
  /** All of them belong to the user of the filter, so a condition on the user is redundant. */
  readonly belongToUser: boolean
}

/** The last row that a reader of the log has reached. */
export type LogPlace = { readonly time: number; readonly id: number }

/** The number of newest index rows on which conditions without an index are tested. It bounds the cost of a query. */
export const MAX_SCANNED = 20_000

/** More than the pages of a list and the counts by row ever read. */
const MAX_INDEX_ROWS = 200_000

export const isPattern = (text: string | undefined): text is string => text?.includes('%') ?? false

/** `%` is the only wildcard, and case is ignored, on both engines. */
export const matchesPattern = (column: string, pattern: string) =>
  sql<boolean>`lower(${sql.ref(column)}) like lower(${pattern.replace(/[\\_]/g, '\\$&')}) escape '\\'`

/** No row has this type. */
const NO_TYPE = -1
/** No row has this id. */
const NO_ID = -1
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

/** Up to this many tokens of one name are looked up by index; rows of a more common name are not rare. */
const MAX_TOKENS_OF_NAME = 50

/** How much earlier than its request a row may be, if clocks differ. */
const MAX_SKEW_S = 86_400

/**
 * A filter for a request with the time before which it has no row, so that PostgreSQL need not look into older partitions. If there
 * is no later row, for example because a clock was set back by days, the filter stays as it is.
 */
async function sinceRequest({ db, engine }: LogStore, filter: LogFilter): Promise<LogFilter> {
  const time = filter.requestId === undefined ? undefined : requestTime(filter.requestId)
  if (engine === 'sqlite' || time === undefined) return filter
  const since = time - MAX_SKEW_S
  if (filter.from !== undefined && filter.from >= since) return filter
  const row = await db
    .selectFrom('logs')
    .select('id')
    .where('request_id', '=', filter.requestId as string)
    .where('created_time', '>=', since)
    .limit(1)
    .executeTakeFirst()
  return row ? { ...filter, from: since } : filter
}

/** Replaces a filter by token name by a filter for the tokens that have or had this name. */
async function byTokens({ db }: LogStore, filter: LogFilter): Promise<LogFilter> {
  const { tokenName, userId } = filter
  if (tokenName === undefined || isPattern(tokenName)) return filter
  const tokens = await tokensNamed(db, { name: tokenName, userId }, MAX_TOKENS_OF_NAME)
  if (!tokens) return filter
  const { ids, isOnlyName } = tokens
  return {
    ...filter,
    tokenName: isOnlyName ? undefined : tokenName,
    tokens: { ids: ids.length === 0 ? [NO_ID] : ids, belongToUser: userId !== undefined },
  }
}

/** Looks up what the filter names, so that the rows are found by an index, and in few partitions. */
export const resolveFilter = async (store: LogStore, filter: LogFilter): Promise<LogFilter> =>
  byTokens(store, await sinceRequest(store, filter))

type ColumnValues = { readonly column: keyof LogRow; readonly values: readonly (string | number)[] }

/** The most selective condition that an index answers, and the others, which are tested on its rows. */
function indexedConditions(filter: LogFilter) {
  const { anyOf, tokens } = filter
  const one = (value: string | number | undefined) => (value === undefined ? undefined : [value])
  const some = (values: readonly (string | number)[] | undefined) => (values?.length ? values : undefined)
  const candidates: readonly (readonly [ColumnValues['column'], ColumnValues['values'] | undefined])[] = [
    ['request_id', one(filter.requestId)],
    ['token_id', one(filter.tokenId)],
    ['token_id', tokens?.ids],
    ['token_id', some(anyOf?.token)],
    ['user_id', one(filter.userId)],
    ['user_id', some(anyOf?.user)],
    ['channel_id', one(filter.channelId)],
    ['channel_id', some(anyOf?.channel)],
    ['model_name', isPattern(filter.modelName) ? undefined : one(filter.modelName)],
    ['model_name', some(anyOf?.model)],
  ]
  const [first, ...rest] = candidates.flatMap(([column, values]): ColumnValues[] =>
    values ? [{ column, values }] : [],
  )
  return { first, rest }
}

const withoutUndefined = (conditions: readonly (RawBuilder<boolean> | undefined)[]) =>
  conditions.filter(each => each !== undefined)

/** Expressions for members of a row's JSON; null if absent. */
export const detailOf = {
  firstMs: (engine: Engine) =>
    engine === 'postgres' ? sql`(other::json ->> 'frt')::numeric` : sql`json_extract(other, '$.frt')`,
  attempts: (engine: Engine) =>
    engine === 'postgres'
      ? sql`json_array_length(other::json #> '{trace,attempts}')::bigint`
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

/** The condition of the partial index of requests with tags. */
export const hasTags = (engine: Engine) =>
  engine === 'postgres' ? sql<boolean>`strpos(other, '"tags"') > 0` : sql<boolean>`instr(other, '"tags"') > 0`

const isTagged = (engine: Engine, { name, value }: NonNullable<LogFilter['tag']>) =>
  engine === 'postgres'
    ? sql<boolean>`(other::json -> 'tags' ->> ${name}) = ${value}`
    : sql<boolean>`exists (
        select 1 from json_each(other, '$.tags') as tag where tag.key = ${name} and tag.value = ${value}
      )`

const noneOf = (lists: Lists | undefined) =>
  Object.entries(lists ?? {}).map(([name, values]) =>
    values === undefined || values.length === 0
      ? undefined
      : sql<boolean>`${sql.ref(LIST_COLUMNS[name as keyof Lists])} not in (${sql.join(values)})`,
  )

/** Conditions that no index answers; they are tested on the rows that the index has found. */
function conditionsOf(engine: Engine, filter: LogFilter): RawBuilder<boolean>[] {
  const { tokenName, modelName, username, isStream, address, minCost, minMs } = filter
  const { minFirstMs, minAttempts, source, upstreamModel, isCached, errorCodes } = filter
  return withoutUndefined([
    tokenName === undefined
      ? undefined
      : isPattern(tokenName)
        ? matchesPattern('token_name', tokenName)
        : sql<boolean>`token_name = ${tokenName}`,
    isPattern(modelName) ? matchesPattern('model_name', modelName) : undefined,
    isPattern(username)
      ? // A subquery by id: with a join, PostgreSQL would test every matching user on every row.
        sql<boolean>`(select ${matchesPattern('users.username', username)} from users where users.id = user_id)`
      : undefined,
    isStream === undefined ? undefined : sql<boolean>`is_stream = ${isStream ? 1 : 0}`,
    address === undefined ? undefined : sql<boolean>`address = ${address}`,
    minCost === undefined ? undefined : sql<boolean>`cost >= ${minCost}`,
    minMs === undefined ? undefined : sql<boolean>`use_time_ms >= ${minMs}`,
    minFirstMs === undefined ? undefined : sql<boolean>`${detailOf.firstMs(engine)} >= ${minFirstMs}`,
    // A single attempt is not recorded.
    minAttempts === undefined || minAttempts < 2
      ? undefined
      : sql<boolean>`${detailOf.attempts(engine)} >= ${minAttempts}`,
    source === undefined ? undefined : sql<boolean>`${detailOf.text(engine, 'source')} = ${source}`,
    upstreamModel === undefined
      ? undefined
      : sql<boolean>`coalesce(${detailOf.text(engine, 'upstream_model_name')}, model_name) = ${upstreamModel}`,
    isCached === undefined
      ? undefined
      : sql<boolean>`(coalesce(${detailOf.cached(engine)}, 0) > 0) = ${isCached ? sql`true` : sql`false`}`,
    errorCodes === undefined
      ? undefined
      : sql<boolean>`${detailOf.text(engine, 'error_code')} in (${sql.join([...errorCodes])})`,
    filter.tag === undefined ? undefined : isTagged(engine, filter.tag),
    filter.status === 'failed' ? sql<boolean>`channel_id <> ${sql.lit(NO_CHANNEL)}` : undefined,
    filter.status === 'rejected' ? sql<boolean>`channel_id = ${sql.lit(NO_CHANNEL)}` : undefined,
    ...noneOf(filter.noneOf),
  ])
}

/**
 * The rows that match a filter, as the table `matches`, and sorted as `newest`. If one index does not answer all conditions,
 * the newest `maxScanned` rows of that index are tested, and `reached` returns the last of them.
 */
export function filtered({ db, engine }: LogStore, filter: LogFilter, maxScanned = MAX_SCANNED) {
  const { first, rest } = indexedConditions(filter)
  const types = typesOf(filter)
  const isRare = types !== undefined && !types.includes(LOG_TYPE.consume)
  const conditions = conditionsOf(engine, filter)
  const [type = NO_TYPE] = types ?? []
  if (isRare && first) conditions.push(sql<boolean>`type = ${type}`)
  const isImplied = ({ column, values }: ColumnValues) =>
    filter.tokens?.belongToUser &&
    first?.values === filter.tokens.ids &&
    column === 'user_id' &&
    values.length === 1
  for (const { column, values } of rest.filter(each => !isImplied(each)))
    conditions.push(sql<boolean>`${sql.ref(column)} in (${sql.join(values)})`)

  /** The rows with one of the values, in the order of its index. */
  function rowsOf(value: string | number | undefined) {
    let rows = db.selectFrom('logs').selectAll('logs')
    if (first && value !== undefined) rows = rows.where(first.column, '=', value as never)
    for (const { column, values } of rest.filter(isImplied)) rows = rows.where(column, 'in', values as never)
    if (filter.tag !== undefined && !first) rows = rows.where(hasTags(engine))
    if (filter.from !== undefined) rows = rows.where('created_time', '>=', filter.from)
    if (filter.to !== undefined) rows = rows.where('created_time', '<=', filter.to)
    const { after } = filter
    if (after !== undefined)
      rows = rows.where(
        sql<boolean>`(created_time < ${after.time} or (created_time = ${after.time} and id < ${after.id}))`,
      )
    if (isRare && !first)
      return (
        rows
          // Rows of a single type are in the order of the index.
          .where('type', '=', type)
          // A literal, because the engines recognize the partial index of the rare types only by it.
          .where('type', '<>', sql.lit(LOG_TYPE.consume))
      )
    // Nearly all rows are requests, so skipping the others is cheap.
    return types && !isRare ? rows.where('type', 'in', [...types]) : rows
  }

  const [one, ...others] = [...new Set(first?.values)]
  /**
   * The engines merge several index scans by taking the newest row of each. PostgreSQL does so only if each scan is sorted
   * and has a limit.
   */
  function indexScanOf(value: string | number | undefined): ReturnType<typeof rowsOf> {
    const all = rowsOf(value)
    if (engine !== 'postgres' || others.length === 0 || maxScanned > MAX_INDEX_ROWS) return all
    const walked = all.orderBy('created_time', 'desc').orderBy('id', 'desc').limit(MAX_INDEX_ROWS)
    return db.selectFrom(walked.as('logs')).selectAll('logs')
  }
  const rows = others.reduce((all, value) => all.unionAll(indexScanOf(value)), indexScanOf(one))
  const isScan = conditions.length > 0
  const newestFirst = rows.orderBy('created_time', 'desc').orderBy('id', 'desc')
  let matches = db.selectFrom((isScan ? newestFirst.limit(maxScanned) : rows).as('matches'))
  for (const condition of conditions) matches = matches.where(condition)

  /** The last row that was tested, if the limit was reached; else undefined. */
  async function lastScanned(): Promise<LogPlace | undefined> {
    if (!isScan) return undefined
    return db
      .selectFrom(
        newestFirst
          .limit(1)
          .offset(maxScanned - 1)
          .as('last'),
      )
      .select(['created_time as time', 'id'])
      .executeTakeFirst()
  }
  // Selects the sort columns too: SQLite merges several scans only if they are in the result.
  const newest = matches
    .select(['matches.created_time', 'matches.id'])
    .orderBy('matches.created_time', 'desc')
    .orderBy('matches.id', 'desc')
  return { matches, newest, reached: lastScanned }
}
