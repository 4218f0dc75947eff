import { Readable } from 'node:stream'
import type { Actor } from '../domain/actor.ts'
import { Refusal } from '../domain/errors.ts'
import { unitsUsed, usdText } from '../domain/money.ts'
import { ROLE } from '../domain/role.ts'
import { doubtsOfRequest, entriesOfRequest } from '../store/entries.ts'
import {
  countConsumed,
  isPattern,
  type LogFilter,
  type LogPlace,
  type LogWithNames,
  listLogs,
  listTokenLogs,
  sumCost,
  walkLogs,
} from '../store/logs.ts'
import { findUserByName } from '../store/users.ts'
import { createKeyHolder } from './api-key.ts'
import type { Handlers } from './call.ts'
import type { logContract } from './contract/logs.ts'
import type { Query } from './contract/route.ts'
import type { Deps } from './deps.ts'
import { tellEntry } from './ledger.ts'
import { pageTold } from './page.ts'

const TOKEN_ROWS = 1_000
const MAX_ROWS_OF_REQUEST = 50
const MINUTE_S = 60
const WALK_ROWS = 100
const EXPORT_ROWS = 1_000
const MAX_EXPORTED = 1_000_000

const tell = (row: LogWithNames) => ({
  id: row.id,
  user_id: row.user_id,
  created_at: row.created_time,
  type: row.type,
  content: row.content,
  username: row.username ?? '',
  token_id: row.token_id,
  token_name: row.token_name,
  model_name: row.model_name,
  quota: unitsUsed(row.cost),
  cost: usdText(row.cost),
  prompt_tokens: row.prompt_tokens,
  completion_tokens: row.completion_tokens,
  use_time: Math.round(row.use_time_ms / 1000),
  use_time_ms: row.use_time_ms,
  is_stream: row.is_stream === 1,
  channel: row.channel_id,
  channel_name: row.channel_name ?? '',
  group: 'default',
  ip: row.address,
  request_id: row.request_id,
  upstream_request_id: row.upstream_request_id,
  other: row.other,
})

/** How a request was routed is the administrators' business. */
const tellOwner = (row: LogWithNames) => {
  const { admin_info: _routed, audit_info: _audited, ...other } = JSON.parse(row.other)
  return { ...tell(row), channel_name: '', other: JSON.stringify(other) }
}

const tellerFor = ({ role }: Actor) => (role >= ROLE.admin ? tell : tellOwner)

type Told = ReturnType<typeof tell>
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
] as const satisfies readonly (keyof Told)[]
const CSV_HEAD = `${CSV_COLUMNS.join(',')}\n`

/** Quoted where it must be; what a spreadsheet would take for a formula is kept from being one. */
const csvField = (value: string | number | boolean) => {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
const csvOf = (row: Told) => `${CSV_COLUMNS.map(name => csvField(row[name])).join(',')}\n`

type OwnQuery = Query<(typeof logContract)['sumOwnLogs']>
type AdminQuery = Query<(typeof logContract)['sumLogs']>

const ownFilter = (query: OwnQuery): LogFilter => ({
  type: query.type,
  from: query.start_timestamp,
  to: query.end_timestamp,
  tokenName: query.token_name,
  modelName: query.model_name,
  requestId: query.request_id,
})

/** There is one group, so no row belongs to another. */
const isNoGroup = (group: string | undefined) => group !== undefined && group !== 'default'
const NONE = { items: [], total: 0 }

/** What was used, by whom, for how much (contract 2.4; contract 4, money). */
export function createLogHandlers(deps: Deps): Handlers<typeof logContract> {
  const { db, now } = deps
  const keyHolder = createKeyHolder(deps, 'forbidden')

  /** Undefined where no row can match: there is no such user, or another group than the one there is. */
  async function adminFilter(query: AdminQuery): Promise<LogFilter | undefined> {
    const { username, channel, group } = query
    if (isNoGroup(group)) return undefined
    const filter = { ...ownFilter(query), channelId: channel }
    if (username === undefined) return filter
    if (isPattern(username)) return { ...filter, username }
    const user = await findUserByName(db, username)
    return user && { ...filter, userId: user.id }
  }

  /** Whoever is no administrator sees their own rows, whatever they ask for. */
  async function filterFor(actor: Actor, query: AdminQuery): Promise<LogFilter | undefined> {
    if (actor.role >= ROLE.admin) return adminFilter(query)
    return isNoGroup(query.group) ? undefined : { ...ownFilter(query), userId: actor.id }
  }

  /** A page at a time, read when the last one has been taken. */
  async function* linesOf(head: string, filter: LogFilter | undefined, line: (row: LogWithNames) => string) {
    if (head !== '') yield head
    if (!filter) return
    let after: LogPlace | undefined
    for (let count = 0; count < MAX_EXPORTED; count += EXPORT_ROWS) {
      const rows = await walkLogs(db, filter, after, EXPORT_ROWS)
      const last = rows.at(-1)
      if (!last) return
      yield rows.map(line).join('')
      after = { time: last.created_time, id: last.id }
    }
  }

  async function stat(filter: LogFilter | undefined) {
    if (filter === undefined) return { quota: 0, rpm: 0, tpm: 0 }
    const lastMinute = { ...filter, from: now() - MINUTE_S + 1, to: undefined }
    const [quota, { requests, tokens }] = await Promise.all([
      sumCost(db, filter),
      countConsumed(db, lastMinute),
    ])
    return { quota, rpm: requests, tpm: tokens }
  }

  return {
    listLogs: async ({ query }) => {
      const filter = await adminFilter(query)
      return pageTold(filter ? await listLogs(db, filter, query.paging) : NONE, query.paging, tell)
    },

    listOwnLogs: async ({ actor, query }) => {
      const filter = { ...ownFilter(query), userId: actor.id }
      const page = isNoGroup(query.group) ? NONE : await listLogs(db, filter, query.paging)
      return pageTold(page, query.paging, tellOwner)
    },

    getLog: async ({ actor, params }) => {
      const isAdmin = actor.role >= ROLE.admin
      const filter = { requestId: params.request_id, ...(isAdmin ? {} : { userId: actor.id }) }
      const { items } = await listLogs(db, filter, { page: 1, pageSize: MAX_ROWS_OF_REQUEST })
      const [first] = items
      if (!first) throw new Refusal('not_found', 'there is no such request')
      if (!isAdmin) return { rows: items.map(tellOwner), entries: [], doubts: [] }
      const [entries, doubts] = await Promise.all([
        entriesOfRequest(db, first),
        doubtsOfRequest(db, params.request_id),
      ])
      return {
        rows: items.map(tell),
        entries: entries.map(tellEntry),
        doubts: doubts.map(({ channel_id, amount, reason, closed_time }) => ({
          channel_id,
          cost: usdText(amount),
          reason,
          is_open: closed_time === null,
        })),
      }
    },

    walkLogs: async ({ actor, query }) => {
      const { limit = WALK_ROWS, cursor } = query
      const filter = await filterFor(actor, query)
      const rows = filter ? await walkLogs(db, filter, cursor, limit) : []
      const last = rows.length === limit ? rows.at(-1) : undefined
      return {
        rows: rows.map(tellerFor(actor)),
        next: last ? `${last.created_time}-${last.id}` : null,
      }
    },

    exportLogs: async ({ actor, query, reply }) => {
      const filter = await filterFor(actor, query)
      const told = tellerFor(actor)
      const isCsv = query.format === 'csv'
      reply
        .type(isCsv ? 'text/csv; charset=utf-8' : 'application/jsonl; charset=utf-8')
        .header('content-disposition', `attachment; filename="usage.${query.format}"`)
      const line = (row: LogWithNames) => (isCsv ? csvOf(told(row)) : `${JSON.stringify(told(row))}\n`)
      return Readable.from(linesOf(isCsv ? CSV_HEAD : '', filter, line))
    },

    sumLogs: async ({ query }) => stat(await adminFilter(query)),

    sumOwnLogs: async ({ actor, query }) =>
      stat(isNoGroup(query.group) ? undefined : { ...ownFilter(query), userId: actor.id }),

    listTokenLogs: async call => {
      const token = await keyHolder(call, { evenIfExpired: true })
      return (await listTokenLogs(db, token.id, TOKEN_ROWS)).map(tellOwner)
    },
  }
}
