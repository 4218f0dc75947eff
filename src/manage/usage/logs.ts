import { Readable } from 'node:stream'
import type { Actor } from '../../domain/actor.ts'
import { notFound, Refusal } from '../../domain/errors.ts'
import { usdText } from '../../domain/money.ts'
import { isAdmin } from '../../domain/role.ts'
import { entriesOfRequest, suspenseOfEntries } from '../../store/books/entries.ts'
import { findUserByName } from '../../store/records/users.ts'
import { hasBody } from '../../store/usage/bodies.ts'
import { facetOf } from '../../store/usage/log-facets.ts'
import { isPattern, type Lists, type LogFilter, type LogPlace } from '../../store/usage/log-filter.ts'
import { countConsumed, totalsOf, unitsOf } from '../../store/usage/log-sums.ts'
import { timesOf } from '../../store/usage/log-times.ts'
import { type LogWithNames, listLogs, listTokenLogs, readLogsAfter } from '../../store/usage/logs.ts'
import { namesOf } from '../../store/usage/names.ts'
import type { EXPORTED, logContract } from '../contract/logs.ts'
import type { Query } from '../contract/route.ts'
import { costLinesOf } from '../money/cost-lines.ts'
import { presentEntry } from '../money/ledger.ts'
import { createKeyHolder } from '../people/api-key.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'
import { type LogView, presenterFor, presentRow, presentToOwner } from './log-view.ts'
import { rowsOfRequest, untilWritten } from './request-rows.ts'

const TOKEN_ROWS = 1_000
const MINUTE_S = 60
const WALK_ROWS = 100
const EXPORT_ROWS = 1_000
const MAX_EXPORTED = 1_000_000
const FACET_VALUES = 50

type Exported = (typeof EXPORTED)[number]
type Value = string | number | boolean
const CSV_COLUMNS = [
  'created_at',
  'request_id',
  'type',
  'username',
  'token_name',
  'model_name',
  'channel',
  'channel_name',
  'prompt_tokens',
  'completion_tokens',
  'cost',
  'use_time_ms',
  'is_stream',
  'ip',
  'content',
] as const satisfies readonly (keyof LogView & Exported)[]

/** Exported members of `other` by column name; empty if a row lacks them. */
const EXPORTED_DETAILS: Partial<Record<Exported, (other: Record<string, unknown>) => unknown>> = {
  upstream_model: other => other.upstream_model_name,
  attempts: other => (other.trace as { attempts?: unknown[] } | undefined)?.attempts?.length,
  cache_tokens: other => other.cache_tokens,
  reasoning_tokens: other => other.reasoning_tokens,
  first_ms: other => other.frt,
  source: other => other.source,
  price: other => other.price,
  error_code: other => other.error_code,
  vendor_cost: other => other.vendor_cost,
}

function valuesOf(row: LogView, columns: readonly Exported[]): Value[] {
  const other = JSON.parse(row.other)
  return columns.map(name => {
    const inside = EXPORTED_DETAILS[name]
    return (inside ? (inside(other) ?? '') : (row[name as keyof LogView] ?? '')) as Value
  })
}

/** Quoted if necessary. A value that a spreadsheet would run as a formula is escaped. */
const csvField = (value: Value) => {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
const csvLine = (values: readonly Value[]) => `${values.map(csvField).join(',')}\n`

/** The header and the rows of an exported file. */
const FILES = {
  csv: {
    type: 'text/csv; charset=utf-8',
    head: (columns: readonly Exported[] = CSV_COLUMNS) => csvLine(columns),
    line: (row: LogView, columns: readonly Exported[] = CSV_COLUMNS) => csvLine(valuesOf(row, columns)),
  },
  jsonl: {
    type: 'application/jsonl; charset=utf-8',
    head: () => '',
    line: (row: LogView, columns?: readonly Exported[]) => {
      const cells = columns
        ? Object.fromEntries(valuesOf(row, columns).map((value, place) => [columns[place], value]))
        : row
      return `${JSON.stringify(cells)}\n`
    },
  },
} as const

type OwnQuery = Query<(typeof logContract)['sumOwnLogs']>
type AdminQuery = Query<(typeof logContract)['sumLogs']>
type FinerQuery = Query<(typeof logContract)['logTotals']>

const ownFilter = (query: OwnQuery): LogFilter => ({
  type: query.type,
  from: query.start_timestamp,
  to: query.end_timestamp,
  tokenName: query.token_name,
  modelName: query.model_name,
  requestId: query.request_id,
  tag: query.tag,
})

/** Filters of the list by cursor, its totals and its facets only. */
const finerFilter = (query: FinerQuery): LogFilter => ({
  tokenId: query.token_id,
  status: query.status,
  isStream: query.stream,
  address: query.ip,
  source: query.source,
  minCost: query.min_cost,
  minMs: query.min_ms,
  minFirstMs: query.min_first_ms,
  minAttempts: query.min_attempts,
  upstreamModel: query.upstream_model,
  isCached: query.cached,
  errorCodes: query.error_code,
})

/** Undefined without a list. For users, filters by user and channel do not apply. */
function listsOf(query: FinerQuery, isForAdmin: boolean): Pick<LogFilter, 'anyOf' | 'noneOf'> {
  const some = (lists: Lists) =>
    Object.values(lists).some(values => values !== undefined) ? lists : undefined
  return {
    anyOf: some({
      model: query.models,
      token: query.token_ids,
      ...(isForAdmin && { channel: query.channels, user: query.user_ids }),
    }),
    noneOf: some({
      model: query.not_models,
      token: query.not_token_ids,
      ...(isForAdmin && { channel: query.not_channels, user: query.not_user_ids }),
    }),
  }
}

/** There is only one group, so another one matches no row. */
const isNoGroup = (group: string | undefined) => group !== undefined && group !== 'default'
const NONE = { items: [], total: 0 }
const NO_TIMES = { count: 0, isAll: true, firstMs: undefined, totalMs: undefined }
const NO_TOTALS = { count: 0, isMore: false, sums: undefined }

/** The routes of the log (docs/reference/management-api.md: Log objects). */
export function createLogHandlers(deps: Deps): Handlers<typeof logContract> {
  const { db, now } = deps
  const store = { db, engine: deps.engine }
  const keyHolder = createKeyHolder(deps, 'forbidden')

  /** Undefined if no row can match, because the user or the group does not exist. */
  async function adminFilter(query: AdminQuery): Promise<LogFilter | undefined> {
    const { username, channel, group } = query
    if (isNoGroup(group)) return undefined
    const filter = { ...ownFilter(query), channelId: channel }
    if (username === undefined) return filter
    if (isPattern(username)) return { ...filter, username }
    const user = await findUserByName(db, username)
    return user && { ...filter, userId: user.id }
  }

  /** Users see only their own rows, with any filter. */
  async function filterFor(actor: Actor, query: FinerQuery): Promise<LogFilter | undefined> {
    const finer = { ...finerFilter(query), ...listsOf(query, isAdmin(actor)) }
    if (!isAdmin(actor))
      return isNoGroup(query.group) ? undefined : { ...ownFilter(query), ...finer, userId: actor.id }
    const filter = await adminFilter(query)
    if (!filter || query.user_id === undefined) return filter && { ...filter, ...finer }
    // A username and a user id of different users match nothing.
    if (filter.userId !== undefined && filter.userId !== query.user_id) return undefined
    return { ...filter, ...finer, userId: query.user_id }
  }

  /** Reads the next page when the previous one has been sent. */
  async function* linesOf(head: string, filter: LogFilter | undefined, line: (row: LogWithNames) => string) {
    if (head !== '') yield head
    if (!filter) return
    let after: LogPlace | undefined
    for (let count = 0; count < MAX_EXPORTED; ) {
      const { rows, next } = await readLogsAfter(store, filter, after, EXPORT_ROWS)
      if (rows.length > 0) yield rows.map(line).join('')
      if (!next) return
      count += rows.length
      after = next
    }
  }

  async function stat(filter: LogFilter | undefined) {
    if (filter === undefined) return { quota: 0, rpm: 0, tpm: 0 }
    const lastMinute = { ...filter, from: now() - MINUTE_S + 1, to: undefined }
    const [quota, { requests, tokens }] = await Promise.all([
      unitsOf(store, filter),
      countConsumed(store, lastMinute),
    ])
    return { quota, rpm: requests, tpm: tokens }
  }

  return {
    listLogs: async ({ query }) => {
      const filter = await adminFilter(query)
      return presentPage(
        filter ? await listLogs(store, filter, query.paging) : NONE,
        query.paging,
        presentRow,
      )
    },

    listOwnLogs: async ({ actor, query }) => {
      const filter = { ...ownFilter(query), userId: actor.id }
      const page = isNoGroup(query.group) ? NONE : await listLogs(store, filter, query.paging)
      return presentPage(page, query.paging, presentToOwner)
    },

    getLog: async ({ actor, params }) => {
      const userId = isAdmin(actor) ? undefined : actor.id
      const items = await untilWritten(params.request_id, () =>
        rowsOfRequest(store, params.request_id, userId),
      )
      if (!items) throw notFound('request')
      const [first] = items
      const costs = await Promise.all(items.map(async row => (await costLinesOf(db, row)) ?? null))
      const has_body = await hasBody(db, params.request_id)
      if (!isAdmin(actor))
        return { rows: items.map(presentToOwner), costs, entries: [], doubts: [], has_body }
      const [entries, doubts] = await Promise.all([
        entriesOfRequest(db, first),
        suspenseOfEntries(db, params.request_id),
      ])
      return {
        rows: items.map(presentRow),
        costs,
        entries: entries.map(presentEntry),
        doubts: doubts.map(({ channel_id, amount, reason, closed_time }) => ({
          channel_id,
          cost: usdText(amount),
          reason,
          is_open: closed_time === null,
        })),
        has_body,
      }
    },

    walkLogs: async ({ actor, query }) => {
      const { limit = WALK_ROWS, cursor } = query
      const filter = await filterFor(actor, query)
      const { rows, next } = filter
        ? await readLogsAfter(store, filter, cursor, limit)
        : { rows: [], next: undefined }
      return { rows: rows.map(presenterFor(actor)), next: next ? `${next.time}-${next.id}` : null }
    },

    logTotals: async ({ actor, query }) => {
      const filter = await filterFor(actor, query)
      const { count, isMore, sums } = filter
        ? await totalsOf(store, { ...filter, status: filter.status ?? 'any' })
        : NO_TOTALS
      return {
        count,
        is_more: isMore,
        failures: sums?.failures ?? null,
        prompt_tokens: sums?.prompt_tokens ?? null,
        completion_tokens: sums?.completion_tokens ?? null,
        cost: sums ? usdText(sums.cost) : null,
      }
    },

    logTimes: async ({ actor, query }) => {
      const filter = await filterFor(actor, query)
      const { count, isAll, firstMs, totalMs } = filter ? await timesOf(store, filter) : NO_TIMES
      return { count, is_all: isAll, first_ms: firstMs ?? null, total_ms: totalMs ?? null }
    },

    logFacets: async ({ actor, query }) => {
      const { by, limit = FACET_VALUES } = query
      if (!isAdmin(actor) && (by === 'channel' || by === 'user'))
        throw new Refusal('forbidden', `Only administrators can group requests by ${by}.`)
      const filter = await filterFor(actor, query)
      const { values, isExact } = filter
        ? await facetOf(store, filter, by, limit)
        : { values: [], isExact: true }
      const keys = values.map(({ key }) => key)
      const names = by === 'status' || by === 'error' ? new Map() : await namesOf(db, by, keys)
      return {
        values: values.map(({ key, count }) => ({
          key: String(key),
          name: names.get(key) ?? String(key),
          count,
        })),
        is_exact: isExact,
      }
    },

    exportLogs: async ({ actor, query, reply }) => {
      const filter = await filterFor(actor, query)
      const present = presenterFor(actor)
      const { columns, format } = query
      const { type, head, line } = FILES[format]
      reply.type(type).header('content-disposition', `attachment; filename="usage.${format}"`)
      return Readable.from(linesOf(head(columns), filter, row => line(present(row), columns)))
    },

    sumLogs: async ({ query }) => stat(await adminFilter(query)),

    sumOwnLogs: async ({ actor, query }) =>
      stat(isNoGroup(query.group) ? undefined : { ...ownFilter(query), userId: actor.id }),

    listTokenLogs: async call => {
      const token = await keyHolder(call, { evenIfExpired: true })
      return (await listTokenLogs(db, token.id, TOKEN_ROWS)).map(presentToOwner)
    },
  }
}
