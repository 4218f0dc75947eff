import { type RawBuilder, sql } from 'kysely'
import { LOG_TYPE } from '../../domain/log.ts'
import type { Engine, LogRow } from '../engine/schema.ts'
import type { Db } from '../engine/store.ts'
import { tokensNamed } from './token-names.ts'

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
  readonly anyOf?: Lists | undefined
  readonly noneOf?: Lists | undefined
  /** Those that are or were called as asked (`byTokens`). */
  readonly tokens?: Tokens | undefined
  /** Rows beyond this one only, on the way back in time. */
  readonly after?: LogPlace | undefined
}

export type Tokens = {
  readonly ids: readonly number[]
  /** They are the user's that is asked for: asking for the user as well leaves no fewer rows. */
  readonly areUsers: boolean
}

/** Where a walk through the log stands: the row it has reached. */
export type LogPlace = { readonly time: number; readonly id: number }

/** What stands beside an index is tried on so many of the newest rows that the index finds, so that its cost has an end. */
export const MAX_TRIED = 20_000

/** Beyond every page that is shown and everything that is counted row by row. */
const MAX_WALKED = 200_000

export const isPattern = (text: string | undefined): text is string => text?.includes('%') ?? false

/** `%` alone is a wildcard, everything else stands for itself, and case does not count, on either engine. */
export const matches = (column: string, pattern: string) =>
  sql<boolean>`lower(${sql.ref(column)}) like lower(${pattern.replace(/[\\_]/g, '\\$&')}) escape '\\'`

/** A type that is none: what a row cannot be twice. */
const NO_TYPE = -1
/** An id that no row has: what somebody is looked for by who is not there. */
const NOBODY = -1
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

/** As many tokens of one name are looked for by index; rows of a name that more have are not rare. */
const MAX_NAMED = 50

/** A filter by the name of a token, as one by the tokens that have or had it. */
export async function byTokens({ db }: LogStore, filter: LogFilter): Promise<LogFilter> {
  const { tokenName, userId } = filter
  if (tokenName === undefined || isPattern(tokenName)) return filter
  const named = await tokensNamed(db, { name: tokenName, userId }, MAX_NAMED)
  if (!named) return filter
  const { ids, isOnlyName } = named
  return {
    ...filter,
    tokenName: isOnlyName ? undefined : tokenName,
    tokens: { ids: ids.length === 0 ? [NOBODY] : ids, areUsers: userId !== undefined },
  }
}

type Asked = { readonly column: keyof LogRow; readonly values: readonly (string | number)[] }

/** What an index finds rows by, newest first: the one condition that leaves the fewest. The rest is tried on them. */
function foundBy(filter: LogFilter) {
  const { anyOf, tokens } = filter
  const one = (value: string | number | undefined) => (value === undefined ? undefined : [value])
  const some = (values: readonly (string | number)[] | undefined) => (values?.length ? values : undefined)
  const candidates: readonly (readonly [Asked['column'], Asked['values'] | undefined])[] = [
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
  const [first, ...rest] = candidates.flatMap(([column, values]): Asked[] =>
    values ? [{ column, values }] : [],
  )
  return { first, rest }
}

const trueFor = (conditions: readonly (RawBuilder<boolean> | undefined)[]) =>
  conditions.filter(each => each !== undefined)

/** What the JSON of a row says; null where it says nothing. */
export const describeFilter = {
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

const noneOf = (lists: Lists | undefined) =>
  Object.entries(lists ?? {}).map(([name, values]) =>
    values === undefined || values.length === 0
      ? undefined
      : sql<boolean>`${sql.ref(LISTED[name as keyof Lists])} not in (${sql.join(values)})`,
  )

/** What no index finds, as conditions on the rows that one has found. */
function conditionsOf(engine: Engine, filter: LogFilter): RawBuilder<boolean>[] {
  const { tokenName, modelName, username, isStream, address, minCost, minMs } = filter
  const { minFirstMs, minAttempts, source, upstreamModel, isCached, errorCodes } = filter
  return trueFor([
    tokenName === undefined
      ? undefined
      : isPattern(tokenName)
        ? matches('token_name', tokenName)
        : sql<boolean>`token_name = ${tokenName}`,
    isPattern(modelName) ? matches('model_name', modelName) : undefined,
    isPattern(username)
      ? // The user of each row by its id: as a join, PostgreSQL tried every user that matches on every row.
        sql<boolean>`(select ${matches('users.username', username)} from users where users.id = user_id)`
      : undefined,
    isStream === undefined ? undefined : sql<boolean>`is_stream = ${isStream ? 1 : 0}`,
    address === undefined ? undefined : sql<boolean>`address = ${address}`,
    minCost === undefined ? undefined : sql<boolean>`cost >= ${minCost}`,
    minMs === undefined ? undefined : sql<boolean>`use_time_ms >= ${minMs}`,
    minFirstMs === undefined ? undefined : sql<boolean>`${describeFilter.firstMs(engine)} >= ${minFirstMs}`,
    // One attempt is not written down.
    minAttempts === undefined || minAttempts < 2
      ? undefined
      : sql<boolean>`${describeFilter.attempts(engine)} >= ${minAttempts}`,
    source === undefined ? undefined : sql<boolean>`${describeFilter.text(engine, 'source')} = ${source}`,
    upstreamModel === undefined
      ? undefined
      : sql<boolean>`coalesce(${describeFilter.text(engine, 'upstream_model_name')}, model_name) = ${upstreamModel}`,
    isCached === undefined
      ? undefined
      : sql<boolean>`(coalesce(${describeFilter.cached(engine)}, 0) > 0) = ${isCached ? sql`true` : sql`false`}`,
    errorCodes === undefined
      ? undefined
      : sql<boolean>`${describeFilter.text(engine, 'error_code')} in (${sql.join([...errorCodes])})`,
    ...noneOf(filter.noneOf),
  ])
}

/**
 * The rows that a filter leaves, as the table `found`, and as the `newest` of them first. Where more is asked than one index answers, the newest `maxTried`
 * rows of that index are tried, and `reached` tells how far that went.
 */
export function filtered({ db, engine }: LogStore, filter: LogFilter, maxTried = MAX_TRIED) {
  const { first, rest } = foundBy(filter)
  const types = typesOf(filter)
  const isRare = types !== undefined && !types.includes(LOG_TYPE.consume)
  const conditions = conditionsOf(engine, filter)
  const [type = NO_TYPE] = types ?? []
  if (isRare && first) conditions.push(sql<boolean>`type = ${type}`)
  const isImplied = ({ column, values }: Asked) =>
    filter.tokens?.areUsers &&
    first?.values === filter.tokens.ids &&
    column === 'user_id' &&
    values.length === 1
  for (const { column, values } of rest.filter(each => !isImplied(each)))
    conditions.push(sql<boolean>`${sql.ref(column)} in (${sql.join(values)})`)

  /** The rows that have one of the values, in the order of the index that has them. */
  function rowsOf(value: string | number | undefined) {
    let rows = db.selectFrom('logs').selectAll('logs')
    if (first && value !== undefined) rows = rows.where(first.column, '=', value as never)
    for (const { column, values } of rest.filter(isImplied)) rows = rows.where(column, 'in', values as never)
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
          // One type at a time is in the order of its index.
          .where('type', '=', type)
          // As a constant, because that is how the engines recognise the index of the rare types.
          .where('type', '<>', sql.lit(LOG_TYPE.consume))
      )
    // Nearly all rows are requests: passing the others over costs nothing worth a bound.
    return types && !isRare ? rows.where('type', 'in', [...types]) : rows
  }

  const [one, ...others] = [...new Set(first?.values)]
  /**
   * Several walks become one, in the order of them all: the engines take a row of whichever has the newest. PostgreSQL does
   * so where each is in that order by itself and has an end.
   */
  function walkOf(value: string | number | undefined): ReturnType<typeof rowsOf> {
    const all = rowsOf(value)
    if (engine !== 'postgres' || others.length === 0 || maxTried > MAX_WALKED) return all
    const walked = all.orderBy('created_time', 'desc').orderBy('id', 'desc').limit(MAX_WALKED)
    return db.selectFrom(walked.as('logs')).selectAll('logs')
  }
  const rows = others.reduce((all, value) => all.unionAll(walkOf(value)), walkOf(one))
  const isTried = conditions.length > 0
  const newestFirst = rows.orderBy('created_time', 'desc').orderBy('id', 'desc')
  let found = db.selectFrom((isTried ? newestFirst.limit(maxTried) : rows).as('found'))
  for (const condition of conditions) found = found.where(condition)

  /** The last row that was tried, where not all of them were. */
  async function reached(): Promise<LogPlace | undefined> {
    if (!isTried) return undefined
    return db
      .selectFrom(
        newestFirst
          .limit(1)
          .offset(maxTried - 1)
          .as('last'),
      )
      .select(['created_time as time', 'id'])
      .executeTakeFirst()
  }
  // With what they are ordered by: SQLite makes one walk of several only where it is among what is asked for.
  const newest = found
    .select(['found.created_time', 'found.id'])
    .orderBy('found.created_time', 'desc')
    .orderBy('found.id', 'desc')
  return { found, newest, reached }
}
