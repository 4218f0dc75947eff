import { Refusal } from '../domain/errors.ts'
import { unitsUsed, usdText } from '../domain/money.ts'
import { ROLE } from '../domain/role.ts'
import { doubtsOfRequest, entriesOfRequest } from '../store/entries.ts'
import {
  countConsumed,
  isPattern,
  type LogFilter,
  type LogWithNames,
  listLogs,
  listTokenLogs,
  sumCost,
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

    sumLogs: async ({ query }) => stat(await adminFilter(query)),

    sumOwnLogs: async ({ actor, query }) =>
      stat(isNoGroup(query.group) ? undefined : { ...ownFilter(query), userId: actor.id }),

    listTokenLogs: async call => {
      const token = await keyHolder(call, { evenIfExpired: true })
      return (await listTokenLogs(db, token.id, TOKEN_ROWS)).map(tellOwner)
    },
  }
}
