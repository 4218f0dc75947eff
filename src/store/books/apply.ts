import { type ChainKey, headMac, link } from '../../domain/chain.ts'
import { LOG_TYPE } from '../../domain/log.ts'
import { vendorNanos } from '../../domain/money.ts'
import type { Settled, UsageLog } from '../../domain/settled.ts'
import type { AccountKind, EntryRow } from '../engine/schema.ts'
import { UNITS } from '../usage/fold-units.ts'
import { entryFields } from './entry.ts'

// SQLite's own thread runs this file, so it leans on nothing heavy: no query builder, no other room's tables.

type Value = string | number | null
type Column = readonly [name: string, type: 'text' | 'bigint']

/** How a statement names the rows it is given: as a table to join, and as what an INSERT takes. */
export type InsertedTable = { readonly table: string; readonly inserted: string }

/**
 * One change of many rows. SQLite's own thread runs it row by row, or some rows at once where it inserts them; PostgreSQL
 * takes all rows as one parameter. Either way the texts stay the same whatever their number, so they are prepared once.
 */
export type BookChange = {
  readonly statement: (given: InsertedTable) => string
  readonly isInsert?: true
  readonly columns: readonly Column[]
  readonly rows: readonly (readonly Value[])[]
  /**
   * Rows that other nodes change too, by the columns that name them. A join meets them in any order, so they are taken
   * in this one first: two batches never wait for each other's rows.
   */
  readonly shared?: { readonly table: string; readonly key: readonly string[] }
}

/** What the store said to a change: how many rows it met, and what they hold where the statement returns them. */
export type ChangeResult = { readonly count: number; readonly rows: readonly unknown[] }

export const chainOf = (nodeId: string) => `node:${nodeId}`

const text = (name: string): Column => [name, 'text']
const whole = (name: string): Column => [name, 'bigint']

export type Position = {
  readonly nodeId: string
  /** Where the store must be, or the batch is not the next one. */
  readonly afterLsn: number
  readonly lastLsn: number
  readonly oldestOpenLsn: number
}

/**
 * A batch of settled requests with the journal's position, as the changes of one transaction. Whoever runs them answers
 * each with what the store said.
 */
export function* applying(
  position: Position,
  settled: readonly Settled[],
  key: ChainKey,
): Generator<BookChange, void, ChangeResult> {
  const moved = yield movePosition(position)
  if (moved.count === 0) {
    const [node] = (yield readPosition(position)).rows as { at: number }[]
    // The batch is in already: the commit of an earlier try went through although nobody heard of it.
    if (Number(node?.at) === position.lastLsn) return
    throw new Error(
      `the store has ${position.nodeId} at record ${node?.at}; what follows record ${position.afterLsn} is not applied`,
    )
  }
  const moves = movesOf(settled)
  yield moveAccounts(moves)
  yield moveLeases(position.nodeId, moves)
  const chain = chainOf(position.nodeId)
  const [head] = (yield growChain(chain, settled.length)).rows as { seq: number; hash: string }[]
  if (!head) throw new Error(`there is no chain "${chain}"`)
  const { entries, hash } = entriesOf({
    chain,
    head: { seq: head.seq - settled.length, hash: head.hash },
    settled,
    key,
  })
  yield insert('entries', ENTRY_COLUMNS, entries)
  const { lastLsn, oldestOpenLsn } = position
  const mac = headMac(key, {
    name: chain,
    seq: head.seq,
    hash,
    position: lastLsn,
    oldestOpen: oldestOpenLsn,
  })
  yield linkChain(chain, hash, mac)
  yield insert('logs', LOG_COLUMNS, settled.map(logOf))
  yield addRollups(settled)
  // After the rollups: who sums them up waits for whoever has begun to write them (`folds.ts`).
  yield unfold(settled)
  yield insert('suspense', DOUBT_COLUMNS, settled.flatMap(doubtsOf))
  yield noteVideos(settled)
  yield touchTokens(settled)
  yield chargeChannels(settled)
}

/** The first look at a video job that was just taken. */
const FIRST_POLL_MS = 2_000
const PHASES = { accepted: 'running', doubt: 'doubt', lost: 'ended' } as const

/**
 * Says of video jobs how their submission ended, in the transaction that writes the entries: after a crash both are there
 * or neither. A job that is past its submission stays as it is; whoever was told of a doubt is told of the job.
 */
const noteVideos = (settled: readonly Settled[]): BookChange => ({
  statement: given => `update videos set phase = given.phase, node_id = null, lease_until_ms = 0,
    next_poll_ms = given.due_ms, cost = given.cost,
    upstream_id = coalesce(given.upstream_id, videos.upstream_id),
    upstream_more = coalesce(given.upstream_more, videos.upstream_more),
    status = coalesce(given.status, videos.status),
    completed_time = coalesce(given.completed_time, videos.completed_time),
    error_code = coalesce(given.error_code, videos.error_code),
    error_message = coalesce(given.error_message, videos.error_message),
    answer = case when given.phase = 'running' and videos.phase = 'doubt' then null else videos.answer end
    from ${given.table} where videos.id = given.id and videos.phase in ('submitting', 'doubt')`,
  columns: [
    text('id'),
    text('phase'),
    whole('due_ms'),
    whole('cost'),
    text('upstream_id'),
    text('upstream_more'),
    text('status'),
    whole('completed_time'),
    text('error_code'),
    text('error_message'),
  ],
  rows: settled.flatMap(({ video, timeMs, cost }) => {
    if (!video) return []
    const [first, ...more] = video.outcome === 'accepted' ? video.upstreamIds : []
    const jobs = [first ?? null, first === undefined ? null : JSON.stringify(more)]
    const failed =
      video.outcome === 'lost'
        ? ['failed', Math.floor(timeMs / 1000), video.code, video.message]
        : [null, null, null, null]
    return [[video.id, PHASES[video.outcome], timeMs + FIRST_POLL_MS, cost, ...jobs, ...failed]]
  }),
})

const movePosition = ({ nodeId, afterLsn, lastLsn, oldestOpenLsn }: Position): BookChange => ({
  statement: given => `update nodes set applied_lsn = given.last_lsn, oldest_open_lsn = given.oldest_open_lsn
    from ${given.table} where nodes.id = given.id and nodes.applied_lsn = given.after_lsn`,
  columns: [text('id'), whole('after_lsn'), whole('last_lsn'), whole('oldest_open_lsn')],
  rows: [[nodeId, afterLsn, lastLsn, oldestOpenLsn]],
})

const readPosition = ({ nodeId }: Position): BookChange => ({
  statement: given => `select nodes.applied_lsn as at from nodes join ${given.table} on nodes.id = given.id`,
  columns: [text('id')],
  rows: [[nodeId]],
})

function insert(
  table: string,
  columns: readonly Column[],
  rows: BookChange['rows'],
  onConflict = '',
): BookChange {
  const names = columns.map(([name]) => name).join(', ')
  return {
    statement: given => `insert into ${table} (${names}) ${given.inserted} ${onConflict}`,
    isInsert: true,
    columns,
    rows,
  }
}

type Move = { kind: AccountKind; ownerId: number; cost: number; leased: number; requests: number }

/** What the batch does to each account, summed: one row moves once, however many requests it paid for. */
function movesOf(settled: readonly Settled[]): Move[] {
  const moves = new Map<string, Move>()
  const move = (kind: AccountKind, ownerId: number) => {
    const name = `${kind}:${ownerId}`
    const found = moves.get(name) ?? { kind, ownerId, cost: 0, leased: 0, requests: 0 }
    moves.set(name, found)
    return found
  }
  for (const { userId, tokenId, cost, userLeased, tokenLeased } of settled) {
    const user = move('user', userId)
    user.cost += cost
    user.leased += userLeased
    user.requests += 1
    if (tokenId === 0) continue
    const token = move('token', tokenId)
    token.cost += cost
    token.leased += tokenLeased
    token.requests += 1
  }
  return [...moves.values()]
}

const moveAccounts = (moves: readonly Move[]): BookChange => ({
  statement: given => `update accounts set posted = accounts.posted + given.cost,
    held = accounts.held - given.leased, request_count = accounts.request_count + given.requests
    from ${given.table} where accounts.kind = given.kind and accounts.owner_id = given.owner_id`,
  shared: { table: 'accounts', key: ['kind', 'owner_id'] },
  columns: [text('kind'), whole('owner_id'), whole('cost'), whole('leased'), whole('requests')],
  rows: moves.map(({ kind, ownerId, cost, leased, requests }) => [kind, ownerId, cost, leased, requests]),
})

const moveLeases = (nodeId: string, moves: readonly Move[]): BookChange => ({
  statement: given => `update leases set amount = leases.amount - given.leased from ${given.table}
    where leases.node_id = given.node_id and leases.kind = given.kind and leases.owner_id = given.owner_id`,
  columns: [text('node_id'), text('kind'), whole('owner_id'), whole('leased')],
  rows: moves
    .filter(({ leased }) => leased > 0)
    .map(({ kind, ownerId, leased }) => [nodeId, kind, ownerId, leased]),
})

/** Takes the places of the batch in the node's chain; answers its head with the hash from before. */
const growChain = (chain: string, links: number): BookChange => ({
  statement: given => `update chains set seq = chains.seq + given.links from ${given.table}
    where chains.name = given.name returning chains.seq as seq, chains.hash as hash`,
  columns: [text('name'), whole('links')],
  rows: [[chain, links]],
})

const linkChain = (chain: string, hash: string, mac: string): BookChange => ({
  statement: given =>
    `update chains set hash = given.hash, mac = given.mac from ${given.table} where chains.name = given.name`,
  columns: [text('name'), text('hash'), text('mac')],
  rows: [[chain, hash, mac]],
})

const ENTRY_COLUMNS = [
  text('chain'),
  whole('seq'),
  whole('time'),
  text('kind'),
  whole('user_id'),
  whole('token_id'),
  whole('channel_id'),
  whole('amount'),
  text('actor'),
  text('reason'),
  text('request_id'),
  text('hash'),
]

type NewLinks = {
  readonly chain: string
  /** The link that they follow. */
  readonly head: { readonly seq: number; readonly hash: string }
  readonly settled: readonly Settled[]
  readonly key: ChainKey
}

/** Links of the node's chain, one for each settled request; the columns are the fields that the chain digests. */
function entriesOf({ chain, head, settled, key }: NewLinks): { entries: Value[][]; hash: string } {
  let { hash } = head
  const entries = settled.map((record, index) => {
    const entry: Omit<EntryRow, 'hash'> = {
      chain,
      seq: head.seq + index + 1,
      time: Math.floor(record.timeMs / 1000),
      kind: 'settle',
      user_id: record.userId,
      token_id: record.tokenId === 0 ? null : record.tokenId,
      channel_id: record.channelId,
      amount: record.cost,
      actor: 'system',
      reason: record.overrun > 0 ? `request, overrun ${record.overrun}` : 'request',
      request_id: record.rid,
    }
    const fields = entryFields(entry)
    hash = link(key, hash, fields)
    return [...fields, hash]
  })
  return { entries, hash }
}

const LOG_COLUMNS = [
  whole('created_time'),
  whole('type'),
  whole('user_id'),
  whole('token_id'),
  text('token_name'),
  whole('channel_id'),
  text('model_name'),
  text('content'),
  whole('cost'),
  whole('prompt_tokens'),
  whole('completion_tokens'),
  whole('use_time_ms'),
  whole('is_stream'),
  text('address'),
  text('request_id'),
  text('upstream_request_id'),
  text('other'),
]

/** A failure that cost something has the type of a paid request (docs/reference/money.md: Log rows). */
const isFreeFailure = ({ isError }: UsageLog, cost: number) => isError && cost === 0

const logOf = ({ timeMs, userId, tokenId, channelId, cost, overrun, rid, log }: Settled): Value[] => [
  Math.floor(timeMs / 1000),
  isFreeFailure(log, cost) ? LOG_TYPE.error : LOG_TYPE.consume,
  userId,
  tokenId,
  log.tokenName,
  channelId,
  log.model,
  log.content,
  cost,
  log.promptTokens,
  log.completionTokens,
  log.useTimeMs,
  log.isStream ? 1 : 0,
  log.address,
  rid,
  log.upstreamRequestId,
  JSON.stringify(overrun > 0 ? { ...log.other, overrun } : log.other),
]

const QUARTER_HOUR_S = 900
const HOUR_S = 3600
const ROLLUP_KEY = [whole('bucket'), whole('user_id'), whole('token_id'), whole('channel_id'), text('model')]
const ROLLUP_COUNTS = [
  whole('requests'),
  whole('failures'),
  whole('prompt_tokens'),
  whole('completion_tokens'),
  whole('cost'),
]
const GROWN = ROLLUP_COUNTS.map(([name]) => `${name} = rollups.${name} + excluded.${name}`).join(', ')

/** Sums by quarter hour, which stay when usage rows go. */
function addRollups(settled: readonly Settled[]): BookChange {
  const sums = new Map<string, { key: readonly Value[]; counts: number[] }>()
  for (const { timeMs, userId, tokenId, channelId, cost, log } of settled) {
    const bucket = Math.floor(timeMs / 1000 / QUARTER_HOUR_S) * QUARTER_HOUR_S
    const added = [1, isFreeFailure(log, cost) ? 1 : 0, log.promptTokens, log.completionTokens, cost]
    const name = `${bucket}\n${userId}\n${tokenId}\n${channelId}\n${log.model}`
    const sum = sums.get(name)
    if (sum)
      for (const [index, count] of added.entries()) sum.counts[index] = (sum.counts[index] ?? 0) + count
    else sums.set(name, { key: [bucket, userId, tokenId, channelId, log.model], counts: added })
  }
  return insert(
    'rollups',
    [...ROLLUP_KEY, ...ROLLUP_COUNTS],
    // Written in this order, which is the same on every node: two batches never wait for each other's sums.
    [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, { key, counts }]) => [...key, ...counts]),
    `on conflict (${ROLLUP_KEY.map(([name]) => name).join(', ')}) do update set ${GROWN}`,
  )
}

/** Sums that were made before these requests were known are no longer the sums; nearly always there are none yet. */
function unfold(settled: readonly Settled[]): BookChange {
  const hours = new Set(settled.map(({ timeMs }) => Math.floor(timeMs / 1000 / HOUR_S) * HOUR_S))
  const units = [...hours].flatMap(hour => UNITS.map(({ unit }) => `${unit} ${hour - (hour % unit)}`))
  return {
    statement: given =>
      `delete from rollup_folds where (unit, start) in (select given.unit, given.start from ${given.table})`,
    shared: { table: 'rollup_folds', key: ['unit', 'start'] },
    columns: [whole('unit'), whole('start')],
    rows: [...new Set(units)].map(name => name.split(' ').map(Number)),
  }
}

const DOUBT_COLUMNS = [
  whole('time'),
  text('request_id'),
  whole('user_id'),
  whole('token_id'),
  whole('channel_id'),
  whole('amount'),
  text('reason'),
]

const doubtsOf = (record: Settled): Value[][] =>
  record.doubts.map(({ channelId, amount, reason }) => [
    Math.floor(record.timeMs / 1000),
    record.rid,
    record.userId,
    record.tokenId,
    channelId,
    amount,
    reason,
  ])

function touchTokens(settled: readonly Settled[]): BookChange {
  const times = new Map(settled.map(({ tokenId, timeMs }) => [tokenId, Math.floor(timeMs / 1000)]))
  return {
    statement: given =>
      `update tokens set accessed_time = given.time from ${given.table} where tokens.id = given.id`,
    shared: { table: 'tokens', key: ['id'] },
    columns: [whole('id'), whole('time')],
    rows: [...times],
  }
}

type ChannelCosts = { cost: number; vendorCost: number; compared: number }

/** What each channel has cost, and where its vendor says what it bills, that sum beside ours of the same requests. */
function chargeChannels(settled: readonly Settled[]): BookChange {
  const channels = new Map<number, ChannelCosts>()
  for (const { channelId, cost, overrun, log } of settled) {
    const sums = channels.get(channelId) ?? { cost: 0, vendorCost: 0, compared: 0 }
    channels.set(channelId, sums)
    sums.cost += cost
    const { vendor_cost: vendorCost } = log.other
    if (typeof vendorCost !== 'string') continue
    sums.vendorCost += vendorNanos(vendorCost)
    sums.compared += cost + overrun
  }
  return {
    statement: given => `update channels set used = channels.used + given.cost,
      vendor_cost = channels.vendor_cost + given.vendor_cost,
      vendor_compared = channels.vendor_compared + given.compared
      from ${given.table} where channels.id = given.id`,
    shared: { table: 'channels', key: ['id'] },
    columns: [whole('id'), whole('cost'), whole('vendor_cost'), whole('compared')],
    rows: [...channels]
      .filter(([, { cost, vendorCost, compared }]) => cost + vendorCost + compared > 0)
      .map(([id, { cost, vendorCost, compared }]) => [id, cost, vendorCost, compared]),
  }
}
