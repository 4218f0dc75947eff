import type { AccountKind } from '../../domain/account.ts'
import type { CanaryMark, ShadowCost } from '../../domain/canary.ts'
import { type ChainKey, headMac, link } from '../../domain/chain.ts'
import { StorePositionError } from '../../domain/errors.ts'
import { LOG_TYPE } from '../../domain/log.ts'
import { NANO_DIGITS, scaled, vendorNanos } from '../../domain/money.ts'
import type { Settled, UsageLog } from '../../domain/settled.ts'
import { storable, storableJson } from '../../domain/text.ts'
import type { EntryRow } from '../engine/schema.ts'
import { UNITS } from '../usage/fold-units.ts'
import { entryFields } from './entry.ts'

// SQLite's thread loads this file, so it must not import large modules such as the query builder.

type Value = string | number | null
type Column = readonly [name: string, type: 'text' | 'bigint']

/** The SQL for the rows of a change: as a table to join, and as the source of an INSERT. */
type InputSql = { readonly table: string; readonly insertSource: string }

/**
 * A change of many rows. SQLite's thread executes it row by row, or inserts several rows at once. PostgreSQL gets all rows
 * as one parameter. The SQL does not depend on the number of rows, so each statement is prepared once.
 */
export type BookChange = {
  readonly statement: (input: InputSql) => string
  readonly isInsert?: true
  readonly columns: readonly Column[]
  readonly rows: readonly (readonly Value[])[]
  /**
   * The table and key columns of rows that other nodes change too. They are locked in key order first, because a join locks
   * rows in any order, and two batches could deadlock.
   */
  readonly shared?: { readonly table: string; readonly key: readonly string[] }
}

/** The number of affected rows, and the rows that the statement returns. */
export type ChangeResult = { readonly count: number; readonly rows: readonly unknown[] }

const firstRow = <Row>(result: ChangeResult | undefined) => result?.rows[0] as Row | undefined

export const chainOf = (nodeId: string) => `node:${nodeId}`

const text = (name: string): Column => [name, 'text']
const integer = (name: string): Column => [name, 'bigint']

export type Position = {
  readonly nodeId: string
  /** The position that the store must have: otherwise this batch is not the next one. */
  readonly afterLsn: number
  readonly lastLsn: number
  readonly oldestOpenLsn: number
}

/**
 * The changes of one transaction that apply a batch of settled requests and move the journal's position. The caller
 * executes each group of changes in order, and passes the results to `next`. A group does not need the results of its
 * earlier changes, so PostgreSQL gets it at once: rows that other nodes change too are not locked while this process is busy.
 */
export function* changesOf(
  position: Position,
  settled: readonly Settled[],
  key: ChainKey,
): Generator<readonly BookChange[], void, readonly ChangeResult[]> {
  const chain = chainOf(position.nodeId)
  const [moved, heads] = yield [movePosition(position), readHead(chain)]
  if (moved?.count !== 1) {
    const [result] = yield [readPosition(position)]
    const node = firstRow<{ at: number; epoch: number }>(result)
    if (Number(node?.epoch) < 0)
      throw new Error(`the node ${position.nodeId} is retired; nothing was applied`)
    // An earlier attempt to apply this batch was committed without an acknowledgement.
    if (Number(node?.at) === position.lastLsn) return
    throw new StorePositionError(
      `the batch of ${position.nodeId} follows record ${position.afterLsn}, but the store is at ${node?.at}; nothing was applied`,
    )
  }
  const head = firstRow<{ seq: number; hash: string }>(heads)
  if (!head) throw new Error(`there is no chain "${chain}"`)
  const { entries, hash } = entriesOf({ chain, head, settled, key })
  const seq = head.seq + settled.length
  const { lastLsn, oldestOpenLsn } = position
  const mac = headMac(key, { name: chain, seq, hash, position: lastLsn, oldestOpen: oldestOpenLsn })
  const accountChanges = accountChangesOf(settled)
  const lowerLeases = reduceLeases(position.nodeId, accountChanges)
  const moveHead = updateHead({ chain, afterSeq: head.seq, seq, hash, mac })
  const group = [
    // The new rows first: no other node waits for them.
    insert('entries', ENTRY_COLUMNS, entries),
    insert('logs', LOG_COLUMNS, settled.map(logOf)),
    insert('suspense', SUSPENSE_COLUMNS, settled.flatMap(suspenseOf)),
    updateAccounts(accountChanges),
    lowerLeases,
    moveHead,
    addRollups(settled),
    // Must follow the rollups: a fold waits for transactions that have begun to write them (`folds.ts`).
    invalidateFolds(settled),
    updateVideos(settled),
    touchTokens(settled),
    chargeChannels(settled),
    ...canaryChangesOf(settled),
  ]
  const results = yield group
  const countOf = (change: BookChange) => results[group.indexOf(change)]?.count ?? 0
  // The store has lost a lease with a failover. The node compares the store with itself, and applies the batch then.
  if (countOf(lowerLeases) < lowerLeases.rows.length)
    throw new Error(`a lease of ${position.nodeId} is missing; nothing was applied`)
  if (countOf(moveHead) !== 1) throw new Error(`the chain "${chain}" was changed; nothing was applied`)
}

/** Only requests that took part in a canary or were also priced by a shadow price change these sums. */
function* canaryChangesOf(settled: readonly Settled[]): Generator<BookChange> {
  if (settled.some(({ log }) => log.other.canary !== undefined)) {
    yield addCanarySums(settled)
    yield insert('canary_times', CANARY_TIME_COLUMNS, settled.flatMap(canaryTimesOf))
  }
  if (settled.some(({ log }) => log.other.shadow !== undefined)) yield addShadowSums(settled)
}

/** The delay of the first poll of an accepted video job. */
const FIRST_POLL_MS = 2_000
const PHASES = { accepted: 'running', doubt: 'doubt', lost: 'ended' } as const

/**
 * Records the outcome of video submissions in the transaction that writes the entries, so that a crash cannot separate
 * them. A job that is past its submission stays unchanged. When an unresolved job turns out to be running, its stored
 * response, which reports an unknown outcome, is deleted.
 */
const updateVideos = (settled: readonly Settled[]): BookChange => ({
  statement: input => `update videos set phase = input.phase, node_id = null, lease_until_ms = 0,
    next_poll_ms = input.due_ms, cost = input.cost,
    upstream_id = coalesce(input.upstream_id, videos.upstream_id),
    upstream_more = coalesce(input.upstream_more, videos.upstream_more),
    status = coalesce(input.status, videos.status),
    completed_time = coalesce(input.completed_time, videos.completed_time),
    error_code = coalesce(input.error_code, videos.error_code),
    error_message = coalesce(input.error_message, videos.error_message),
    answer = case when input.phase = 'running' and videos.phase = 'doubt' then null else videos.answer end
    from ${input.table} where videos.id = input.id and videos.phase in ('submitting', 'doubt')`,
  columns: [
    text('id'),
    text('phase'),
    integer('due_ms'),
    integer('cost'),
    text('upstream_id'),
    text('upstream_more'),
    text('status'),
    integer('completed_time'),
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
  statement: input => `update nodes set applied_lsn = input.last_lsn, oldest_open_lsn = input.oldest_open_lsn
    from ${input.table} where nodes.id = input.id and nodes.applied_lsn = input.after_lsn and nodes.epoch > 0`,
  columns: [text('id'), integer('after_lsn'), integer('last_lsn'), integer('oldest_open_lsn')],
  rows: [[nodeId, afterLsn, lastLsn, oldestOpenLsn]],
})

const readPosition = ({ nodeId }: Position): BookChange => ({
  statement: input =>
    `select nodes.applied_lsn as at, nodes.epoch as epoch from nodes join ${input.table} on nodes.id = input.id`,
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
    statement: input => `insert into ${table} (${names}) ${input.insertSource} ${onConflict}`,
    isInsert: true,
    columns,
    rows,
  }
}

type AccountChange = { kind: AccountKind; ownerId: number; cost: number; leased: number; requests: number }

/** The sums of the batch by account, so that each row is updated once. */
function accountChangesOf(settled: readonly Settled[]): AccountChange[] {
  const changes = { user: new Map<number, AccountChange>(), token: new Map<number, AccountChange>() }
  const changeOf = (kind: AccountKind, ownerId: number) => {
    const current = changes[kind].get(ownerId)
    if (current) return current
    const change = { kind, ownerId, cost: 0, leased: 0, requests: 0 }
    changes[kind].set(ownerId, change)
    return change
  }
  for (const { userId, tokenId, cost, userLeased, tokenLeased } of settled) {
    const user = changeOf('user', userId)
    user.cost += cost
    user.leased += userLeased
    user.requests += 1
    if (tokenId === 0) continue
    const token = changeOf('token', tokenId)
    token.cost += cost
    token.leased += tokenLeased
    token.requests += 1
  }
  return [...changes.user.values(), ...changes.token.values()]
}

const updateAccounts = (accountChanges: readonly AccountChange[]): BookChange => ({
  statement: input => `update accounts set posted = accounts.posted + input.cost,
    held = accounts.held - input.leased, request_count = accounts.request_count + input.requests
    from ${input.table} where accounts.kind = input.kind and accounts.owner_id = input.owner_id`,
  shared: { table: 'accounts', key: ['kind', 'owner_id'] },
  columns: [text('kind'), integer('owner_id'), integer('cost'), integer('leased'), integer('requests')],
  rows: accountChanges.map(({ kind, ownerId, cost, leased, requests }) => [
    kind,
    ownerId,
    cost,
    leased,
    requests,
  ]),
})

const reduceLeases = (nodeId: string, accountChanges: readonly AccountChange[]): BookChange => ({
  statement: input => `update leases set amount = leases.amount - input.leased from ${input.table}
    where leases.node_id = input.node_id and leases.kind = input.kind and leases.owner_id = input.owner_id`,
  columns: [text('node_id'), text('kind'), integer('owner_id'), integer('leased')],
  rows: accountChanges
    .filter(({ leased }) => leased > 0)
    .map(({ kind, ownerId, leased }) => [nodeId, kind, ownerId, leased]),
})

/** The head of the node's chain. The position of the node has been moved, so no other transaction changes it. */
const readHead = (chain: string): BookChange => ({
  statement: input =>
    `select chains.seq as seq, chains.hash as hash from chains join ${input.table} on chains.name = input.name`,
  columns: [text('name')],
  rows: [[chain]],
})

type HeadMove = {
  readonly chain: string
  readonly afterSeq: number
  readonly seq: number
  readonly hash: string
  readonly mac: string
}

const updateHead = ({ chain, afterSeq, seq, hash, mac }: HeadMove): BookChange => ({
  statement:
    input => `update chains set seq = input.seq, hash = input.hash, mac = input.mac from ${input.table}
    where chains.name = input.name and chains.seq = input.after_seq`,
  columns: [text('name'), integer('after_seq'), integer('seq'), text('hash'), text('mac')],
  rows: [[chain, afterSeq, seq, hash, mac]],
})

const ENTRY_COLUMNS = [
  text('chain'),
  integer('seq'),
  integer('time'),
  text('kind'),
  integer('user_id'),
  integer('token_id'),
  integer('channel_id'),
  integer('amount'),
  text('actor'),
  text('reason'),
  text('request_id'),
  text('hash'),
]

type NewLinks = {
  readonly chain: string
  /** The last link before them. */
  readonly head: { readonly seq: number; readonly hash: string }
  readonly settled: readonly Settled[]
  readonly key: ChainKey
}

/** The ledger entries of the settled requests, each a link of the node's chain. */
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
    const fields: Value[] = entryFields(entry)
    hash = link(key, hash, fields)
    fields.push(hash)
    return fields
  })
  return { entries, hash }
}

const LOG_COLUMNS = [
  integer('created_time'),
  integer('type'),
  integer('user_id'),
  integer('token_id'),
  text('token_name'),
  integer('channel_id'),
  text('model_name'),
  text('content'),
  integer('cost'),
  integer('prompt_tokens'),
  integer('completion_tokens'),
  integer('use_time_ms'),
  integer('is_stream'),
  text('address'),
  text('request_id'),
  text('upstream_request_id'),
  text('other'),
]

/** A failed request with a cost is logged as a paid request (docs/reference/money.md: Log rows). */
const isFreeFailure = ({ isError }: UsageLog, cost: number) => isError && cost === 0

const logOf = ({ timeMs, userId, tokenId, channelId, cost, overrun, rid, log }: Settled): Value[] => [
  Math.floor(timeMs / 1000),
  isFreeFailure(log, cost) ? LOG_TYPE.error : LOG_TYPE.consume,
  userId,
  tokenId,
  log.tokenName,
  channelId,
  log.model,
  storable(log.content),
  cost,
  log.promptTokens,
  log.completionTokens,
  log.useTimeMs,
  log.isStream ? 1 : 0,
  log.address,
  rid,
  storable(log.upstreamRequestId),
  storableJson(JSON.stringify(overrun > 0 ? { ...log.other, overrun } : log.other)),
]

const QUARTER_HOUR_S = 900
const HOUR_S = 3600
const ROLLUP_KEY = [
  integer('bucket'),
  integer('user_id'),
  integer('token_id'),
  integer('channel_id'),
  text('model'),
]
const ROLLUP_COUNTS = [
  integer('requests'),
  integer('failures'),
  integer('prompt_tokens'),
  integer('completion_tokens'),
  integer('cost'),
]
const SUMS_ON_CONFLICT = ROLLUP_COUNTS.map(([name]) => `${name} = rollups.${name} + excluded.${name}`).join(
  ', ',
)

type RollupSum = {
  readonly key: readonly [bucket: number, userId: number, tokenId: number, channelId: number, model: string]
  readonly counts: [
    requests: number,
    failures: number,
    promptTokens: number,
    completionTokens: number,
    cost: number,
  ]
}

const bucketOf = (timeMs: number) => Math.floor(timeMs / 1000 / QUARTER_HOUR_S) * QUARTER_HOUR_S

const rollupKeyOf = ({ timeMs, userId, tokenId, channelId, log }: Settled): RollupSum['key'] => [
  bucketOf(timeMs),
  userId,
  tokenId,
  channelId,
  log.model,
]

const isCountedBy = ({ key }: RollupSum, { timeMs, userId, tokenId, channelId, log }: Settled): boolean =>
  key[2] === tokenId &&
  key[4] === log.model &&
  key[3] === channelId &&
  key[1] === userId &&
  key[0] === bucketOf(timeMs)

const sumOf = (sum: number, added: number) => Math.min(sum + added, MAX_SUM)

function addTo({ counts }: RollupSum, { cost, log }: Settled): void {
  counts[0] = sumOf(counts[0], 1)
  counts[1] = sumOf(counts[1], isFreeFailure(log, cost) ? 1 : 0)
  counts[2] = sumOf(counts[2], log.promptTokens)
  counts[3] = sumOf(counts[3], log.completionTokens)
  counts[4] = sumOf(counts[4], cost)
}

/** Adds the batch to the sums by quarter hour, which are kept when usage rows are deleted. */
function addRollups(settled: readonly Settled[]): BookChange {
  const sums = new Map<string, RollupSum>()
  let last: RollupSum | undefined
  for (const record of settled) {
    // Most requests follow one with the same key, and building the text of a key takes longer than adding to its sum.
    if (last === undefined || !isCountedBy(last, record)) {
      const key = rollupKeyOf(record)
      const name = key.join('\n')
      last = sums.get(name) ?? { key, counts: [0, 0, 0, 0, 0] }
      sums.set(name, last)
    }
    addTo(last, record)
  }
  return insert(
    'rollups',
    [...ROLLUP_KEY, ...ROLLUP_COUNTS],
    // Sorted, so that every node locks the rows in the same order and two batches cannot deadlock.
    [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, { key, counts }]) => [...key, ...counts]),
    `on conflict (${ROLLUP_KEY.map(([name]) => name).join(', ')}) do update set ${SUMS_ON_CONFLICT}`,
  )
}

/** Deletes the folds (sums of rollups over longer units) that lack these requests. Usually there are none yet. */
function invalidateFolds(settled: readonly Settled[]): BookChange {
  const hours = new Set(settled.map(({ timeMs }) => Math.floor(timeMs / 1000 / HOUR_S) * HOUR_S))
  const units = [...hours].flatMap(hour => UNITS.map(({ unit }) => `${unit} ${hour - (hour % unit)}`))
  return {
    statement: input =>
      `delete from rollup_folds where (unit, start) in (select input.unit, input.start from ${input.table})`,
    shared: { table: 'rollup_folds', key: ['unit', 'start'] },
    columns: [integer('unit'), integer('start')],
    rows: [...new Set(units)].map(name => name.split(' ').map(Number)),
  }
}

const SUSPENSE_COLUMNS = [
  integer('time'),
  text('request_id'),
  integer('user_id'),
  integer('token_id'),
  integer('channel_id'),
  integer('amount'),
  text('reason'),
]

const suspenseOf = (record: Settled): Value[][] =>
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
    statement: input =>
      `update tokens set accessed_time = input.time from ${input.table} where tokens.id = input.id`,
    shared: { table: 'tokens', key: ['id'] },
    columns: [integer('id'), integer('time')],
    rows: [...times],
  }
}

type ChannelCosts = { cost: number; vendorCost: number; compared: number }

/** Adds the costs to each channel. Vendor-reported costs are summed too, with our costs of the same requests. */
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
    statement: input => `update channels set used = channels.used + input.cost,
      vendor_cost = channels.vendor_cost + input.vendor_cost,
      vendor_compared = channels.vendor_compared + input.compared
      from ${input.table} where channels.id = input.id`,
    shared: { table: 'channels', key: ['id'] },
    columns: [integer('id'), integer('cost'), integer('vendor_cost'), integer('compared')],
    rows: [...channels]
      .filter(([, { cost, vendorCost, compared }]) => cost + vendorCost + compared > 0)
      .map(([id, { cost, vendorCost, compared }]) => [id, cost, vendorCost, compared]),
  }
}

const CANARY_SUM_KEY = [integer('canary_id'), integer('round'), text('side')]
const CANARY_COUNTS = [
  integer('requests'),
  integer('errors'),
  integer('prompt_tokens'),
  integer('completion_tokens'),
  integer('cost'),
]

const marksOf = ({ log }: Settled) => (log.other.canary ?? []) as readonly CanaryMark[]

/** Rows to add to a table of sums: one for each key, in the order of the keys, so that two batches cannot deadlock. */
function sumsByKey(added: readonly { readonly key: readonly Value[]; readonly counts: readonly number[] }[]) {
  const sums = new Map<string, { key: readonly Value[]; counts: number[] }>()
  for (const { key, counts } of added) {
    const name = key.join('\n')
    const sum = sums.get(name)
    if (sum)
      for (const [index, count] of counts.entries()) sum.counts[index] = (sum.counts[index] ?? 0) + count
    else sums.set(name, { key, counts: [...counts] })
  }
  return [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, { key, counts }]) => [...key, ...counts])
}

/** Sums do not grow beyond this. An absurd shadow price must not make a batch of settled requests fail. */
const MAX_SUM = Number.MAX_SAFE_INTEGER

const addingTo = (table: string, key: readonly Column[], counts: readonly Column[]) =>
  `on conflict (${key.map(([name]) => name).join(', ')}) do update set ${counts
    .map(
      ([name]) =>
        `${name} = case when ${table}.${name} > ${MAX_SUM} - excluded.${name} then ${MAX_SUM}
          else ${table}.${name} + excluded.${name} end`,
    )
    .join(', ')}`

/** Adds the requests to the sums of the canaries that they took part in. */
const addCanarySums = (settled: readonly Settled[]): BookChange =>
  insert(
    'canary_sums',
    [...CANARY_SUM_KEY, ...CANARY_COUNTS],
    sumsByKey(
      settled.flatMap(record =>
        marksOf(record).map(({ id, round, side }) => ({
          key: [id, round, side],
          counts: [
            1,
            record.log.isError ? 1 : 0,
            record.log.promptTokens,
            record.log.completionTokens,
            record.cost,
          ],
        })),
      ),
    ),
    addingTo('canary_sums', CANARY_SUM_KEY, CANARY_COUNTS),
  )

const CANARY_TIME_COLUMNS = [
  ...CANARY_SUM_KEY,
  integer('time'),
  text('request_id'),
  integer('use_time_ms'),
  integer('first_ms'),
]

function canaryTimesOf(record: Settled): Value[][] {
  const { log, timeMs, rid } = record
  if (log.isError) return []
  const { frt } = log.other
  const firstMs = typeof frt === 'number' ? frt : null
  return marksOf(record).map(({ id, round, side }) => [
    id,
    round,
    side,
    Math.floor(timeMs / 1000),
    rid,
    log.useTimeMs,
    firstMs,
  ])
}

const DAY_S = 86_400
const SHADOW_SUM_KEY = [integer('canary_id'), integer('day'), integer('user_id'), integer('token_id')]
const SHADOW_COUNTS = [integer('requests'), integer('cost'), integer('shadow_cost')]

/** Adds the requests to the sums of the shadow prices that they were also priced by. */
const addShadowSums = (settled: readonly Settled[]): BookChange =>
  insert(
    'shadow_sums',
    [...SHADOW_SUM_KEY, ...SHADOW_COUNTS],
    sumsByKey(
      settled.flatMap(({ timeMs, userId, tokenId, cost, log }) => {
        const second = Math.floor(timeMs / 1000)
        return ((log.other.shadow ?? []) as readonly ShadowCost[]).map(shadow => ({
          key: [shadow.id, second - (second % DAY_S), userId, tokenId],
          counts: [1, cost, scaled(shadow.cost, NANO_DIGITS) ?? 0],
        }))
      }),
    ),
    addingTo('shadow_sums', SHADOW_SUM_KEY, SHADOW_COUNTS),
  )
