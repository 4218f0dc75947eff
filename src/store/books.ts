import { type RawBuilder, sql } from 'kysely'
import { link } from '../domain/chain.ts'
import { entryFields } from './accounts.ts'
import { startChain } from './chains.ts'
import { chunksOf } from './chunks.ts'
import { LOG_TYPE } from './logs.ts'
import type { AccountKind, Engine } from './schema.ts'
import type { Db, Trx } from './store.ts'

type AccountName = { readonly kind: AccountKind; readonly ownerId: number }

/** A settled request, as the store writes it down. */
export type Settled = {
  readonly rid: string
  readonly timeMs: number
  readonly userId: number
  readonly tokenId: number
  readonly channelId: number
  readonly cost: number
  readonly overrun: number
  readonly userLeased: number
  readonly tokenLeased: number
  readonly doubts: readonly { readonly channelId: number; readonly amount: number; readonly reason: string }[]
  readonly log: {
    readonly tokenName: string
    readonly model: string
    readonly promptTokens: number
    readonly completionTokens: number
    readonly useTimeMs: number
    readonly isStream: boolean
    readonly address: string
    readonly isError: boolean
    readonly content: string
    readonly upstreamRequestId: string
    readonly other: Readonly<Record<string, unknown>>
  }
}

export type SettledBatch = {
  readonly settled: readonly { readonly lsn: number; readonly record: Settled }[]
  readonly lastLsn: number
  readonly oldestOpenLsn: number
}

export const chainOf = (nodeId: string) => `node:${nodeId}`

const QUARTER_HOUR_S = 900
const REQUESTS_AT_ONCE = 500

type Column = readonly [name: string, type: 'text' | 'bigint']

/**
 * Many rows as one parameter: the statement stays the same whatever their number, so it is prepared once and the
 * batch costs one message to the writer.
 */
function rows(
  engine: Engine,
  columns: readonly Column[],
  values: readonly (readonly (string | number | null)[])[],
) {
  const json = JSON.stringify(values)
  const name = (column: string) => sql.ref(column)
  if (engine === 'sqlite') {
    const fields = columns.map(
      ([column], index) => sql`json_extract(value, ${sql.lit(`$[${index}]`)}) as ${name(column)}`,
    )
    return sql`(select ${sql.join(fields)} from json_each(${json}))`
  }
  const fields = columns.map(
    ([column, type], index) => sql`(value ->> ${sql.lit(index)})::${sql.raw(type)} as ${name(column)}`,
  )
  return sql`(select ${sql.join(fields)} from jsonb_array_elements(${json}::jsonb) as value)`
}

async function insertRows(
  trx: Trx,
  engine: Engine,
  table: string,
  columns: readonly Column[],
  values: readonly (readonly (string | number | null)[])[],
  onConflict: RawBuilder<unknown> = sql``,
): Promise<void> {
  if (values.length === 0) return
  const names = sql.join(columns.map(([column]) => sql.ref(column)))
  await sql`insert into ${sql.table(table)} (${names}) select ${names} from ${rows(engine, columns, values)} as given where true ${onConflict}`.execute(
    trx,
  )
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
  // Always in the same order, so that two nodes never wait for each other's rows.
  return [...moves.values()].sort((a, b) => a.kind.localeCompare(b.kind) || a.ownerId - b.ownerId)
}

async function moveAccounts(trx: Trx, engine: Engine, nodeId: string, moves: readonly Move[]): Promise<void> {
  const columns = [
    ['kind', 'text'],
    ['owner_id', 'bigint'],
    ['cost', 'bigint'],
    ['leased', 'bigint'],
    ['requests', 'bigint'],
  ] as const
  const values = moves.map(({ kind, ownerId, cost, leased, requests }) => [
    kind,
    ownerId,
    cost,
    leased,
    requests,
  ])
  const moved = rows(engine, columns, values)
  await sql`update accounts set posted = accounts.posted + moved.cost, held = accounts.held - moved.leased,
    request_count = accounts.request_count + moved.requests
    from ${moved} as moved where accounts.kind = moved.kind and accounts.owner_id = moved.owner_id`.execute(
    trx,
  )
  await sql`update leases set amount = leases.amount - moved.leased from ${moved} as moved
    where leases.node_id = ${nodeId} and leases.kind = moved.kind and leases.owner_id = moved.owner_id and moved.leased > 0`.execute(
    trx,
  )
}

/** Links of the node's chain, one for each settled request. */
async function appendEntries(
  trx: Trx,
  engine: Engine,
  nodeId: string,
  settled: readonly Settled[],
): Promise<void> {
  const chain = chainOf(nodeId)
  const head = await trx
    .selectFrom('chains')
    .select(['seq', 'hash'])
    .where('name', '=', chain)
    .executeTakeFirstOrThrow()
  let { seq, hash } = head
  const entries = settled.map(record => {
    seq += 1
    const entry = {
      chain,
      seq,
      time: Math.floor(record.timeMs / 1000),
      kind: 'settle' as const,
      user_id: record.userId,
      token_id: record.tokenId === 0 ? null : record.tokenId,
      channel_id: record.channelId,
      amount: record.cost,
      actor: 'system',
      reason: record.overrun > 0 ? `request, overrun ${record.overrun}` : 'request',
      request_id: record.rid,
    }
    hash = link(hash, entryFields(entry))
    return { ...entry, hash }
  })
  const columns = [
    ['chain', 'text'],
    ['seq', 'bigint'],
    ['time', 'bigint'],
    ['kind', 'text'],
    ['user_id', 'bigint'],
    ['token_id', 'bigint'],
    ['channel_id', 'bigint'],
    ['amount', 'bigint'],
    ['actor', 'text'],
    ['reason', 'text'],
    ['request_id', 'text'],
    ['hash', 'text'],
  ] as const
  const values = entries.map(entry => columns.map(([name]) => entry[name]))
  await insertRows(trx, engine, 'entries', columns, values)
  await trx.updateTable('chains').set({ seq, hash }).where('name', '=', chain).execute()
}

async function appendLogs(trx: Trx, engine: Engine, settled: readonly Settled[]): Promise<void> {
  const columns = [
    ['created_time', 'bigint'],
    ['type', 'bigint'],
    ['user_id', 'bigint'],
    ['token_id', 'bigint'],
    ['token_name', 'text'],
    ['channel_id', 'bigint'],
    ['model_name', 'text'],
    ['content', 'text'],
    ['cost', 'bigint'],
    ['prompt_tokens', 'bigint'],
    ['completion_tokens', 'bigint'],
    ['use_time_ms', 'bigint'],
    ['is_stream', 'bigint'],
    ['address', 'text'],
    ['request_id', 'text'],
    ['upstream_request_id', 'text'],
    ['other', 'text'],
  ] as const
  const values = settled.map(({ log, ...record }) => [
    Math.floor(record.timeMs / 1000),
    log.isError ? LOG_TYPE.error : LOG_TYPE.consume,
    record.userId,
    record.tokenId,
    log.tokenName,
    record.channelId,
    log.model,
    log.content,
    record.cost,
    log.promptTokens,
    log.completionTokens,
    log.useTimeMs,
    log.isStream ? 1 : 0,
    log.address,
    record.rid,
    log.upstreamRequestId,
    JSON.stringify(record.overrun > 0 ? { ...log.other, overrun: record.overrun } : log.other),
  ])
  await insertRows(trx, engine, 'logs', columns, values)
}

/** Sums by quarter hour, which stay when usage rows go. */
async function addRollups(trx: Trx, engine: Engine, settled: readonly Settled[]): Promise<void> {
  const columns = [
    ['bucket', 'bigint'],
    ['user_id', 'bigint'],
    ['token_id', 'bigint'],
    ['channel_id', 'bigint'],
    ['model', 'text'],
    ['requests', 'bigint'],
    ['failures', 'bigint'],
    ['prompt_tokens', 'bigint'],
    ['completion_tokens', 'bigint'],
    ['cost', 'bigint'],
  ] as const
  const sums = new Map<string, (string | number)[]>()
  for (const { log, ...record } of settled) {
    const bucket = Math.floor(record.timeMs / 1000 / QUARTER_HOUR_S) * QUARTER_HOUR_S
    const key = [bucket, record.userId, record.tokenId, record.channelId, log.model]
    const added = [1, log.isError ? 1 : 0, log.promptTokens, log.completionTokens, record.cost]
    const name = JSON.stringify(key)
    const found = sums.get(name)
    const counts = found ? added.map((value, index) => value + Number(found[key.length + index])) : added
    sums.set(name, [...key, ...counts])
  }
  const counts = ['requests', 'failures', 'prompt_tokens', 'completion_tokens', 'cost'] as const
  const grown = counts.map(
    name => sql`${sql.ref(name)} = rollups.${sql.ref(name)} + excluded.${sql.ref(name)}`,
  )
  await insertRows(
    trx,
    engine,
    'rollups',
    columns,
    [...sums.values()],
    sql`on conflict (bucket, user_id, token_id, channel_id, model) do update set ${sql.join(grown)}`,
  )
}

async function addDoubts(trx: Trx, engine: Engine, settled: readonly Settled[]): Promise<void> {
  const columns = [
    ['time', 'bigint'],
    ['request_id', 'text'],
    ['user_id', 'bigint'],
    ['token_id', 'bigint'],
    ['channel_id', 'bigint'],
    ['amount', 'bigint'],
    ['reason', 'text'],
  ] as const
  const values = settled.flatMap(record =>
    record.doubts.map(({ channelId, amount, reason }) => [
      Math.floor(record.timeMs / 1000),
      record.rid,
      record.userId,
      record.tokenId,
      channelId,
      amount,
      reason,
    ]),
  )
  await insertRows(trx, engine, 'suspense', columns, values)
}

async function touchUsed(trx: Trx, engine: Engine, settled: readonly Settled[]): Promise<void> {
  const tokens = new Map<number, number>()
  const channels = new Map<number, number>()
  for (const { tokenId, channelId, timeMs, cost } of settled) {
    tokens.set(tokenId, Math.floor(timeMs / 1000))
    channels.set(channelId, (channels.get(channelId) ?? 0) + cost)
  }
  const columns = [
    ['id', 'bigint'],
    ['amount', 'bigint'],
  ] as const
  await sql`update tokens set accessed_time = given.amount from ${rows(engine, columns, [...tokens])} as given where tokens.id = given.id`.execute(
    trx,
  )
  await sql`update channels set used = channels.used + given.amount from ${rows(engine, columns, [...channels])} as given where channels.id = given.id and given.amount > 0`.execute(
    trx,
  )
}

/** One statement, so that an account in demand is held by nobody for longer than it takes. */
async function leaseAtOnce(
  db: Db,
  nodeId: string,
  { kind, ownerId }: AccountName,
  want: number,
): Promise<number> {
  const { rows } = await sql<{ amount: number }>`
    with granted as (
      select greatest(0, least(${want}::bigint, credited - posted - held)) as amount from accounts
      where kind = ${kind} and owner_id = ${ownerId} for update
    ), moved as (
      update accounts set held = held + granted.amount from granted
      where kind = ${kind} and owner_id = ${ownerId} and granted.amount > 0
    ), noted as (
      insert into leases (node_id, kind, owner_id, amount)
      select ${nodeId}::text, ${kind}::text, ${ownerId}::bigint, amount from granted where amount > 0
      on conflict (node_id, kind, owner_id) do update set amount = leases.amount + excluded.amount
    ) select amount from granted`.execute(db)
  return rows[0]?.amount ?? 0
}

/** SQLite has one writer, who sees nothing of others until it is done. */
const leaseInSteps = (
  db: Db,
  nodeId: string,
  { kind, ownerId }: AccountName,
  want: number,
): Promise<number> =>
  db.transaction().execute(async trx => {
    const account = await trx
      .selectFrom('accounts')
      .select(['credited', 'posted', 'held'])
      .where('kind', '=', kind)
      .where('owner_id', '=', ownerId)
      .executeTakeFirst()
    const free = account ? account.credited - account.posted - account.held : 0
    const granted = Math.max(0, Math.min(want, free))
    if (granted === 0) return 0
    await trx
      .updateTable('accounts')
      .set(row => ({ held: row('held', '+', granted) }))
      .where('kind', '=', kind)
      .where('owner_id', '=', ownerId)
      .execute()
    await trx
      .insertInto('leases')
      .values({ node_id: nodeId, kind, owner_id: ownerId, amount: granted })
      .onConflict(conflict =>
        conflict
          .columns(['node_id', 'kind', 'owner_id'])
          .doUpdateSet({ amount: sql<number>`leases.amount + ${granted}` }),
      )
      .execute()
    return granted
  })

/** The store's side of the books; each function is one transaction. */
export function createBooks(db: Db, engine: Engine) {
  return {
    async openNode(nodeId: string, time: number) {
      return db.transaction().execute(async trx => {
        await startChain(trx, chainOf(nodeId))
        const row = await trx
          .insertInto('nodes')
          .values({ id: nodeId, epoch: 1, applied_lsn: 0, oldest_open_lsn: 1, started_time: time })
          .onConflict(conflict =>
            conflict.column('id').doUpdateSet({ epoch: sql<number>`nodes.epoch + 1`, started_time: time }),
          )
          .returning(['applied_lsn', 'oldest_open_lsn'])
          .executeTakeFirstOrThrow()
        return { appliedLsn: row.applied_lsn, oldestOpenLsn: row.oldest_open_lsn }
      })
    },

    async findAccount({ kind, ownerId }: AccountName) {
      const row = await db
        .selectFrom('accounts')
        .select('unlimited')
        .where('kind', '=', kind)
        .where('owner_id', '=', ownerId)
        .executeTakeFirst()
      return row && { isUnlimited: row.unlimited === 1 }
    },

    /** As much of `want` as the account has free: what is spent and leased never exceeds what was credited. */
    lease: (nodeId: string, account: AccountName, want: number): Promise<number> =>
      engine === 'postgres'
        ? leaseAtOnce(db, nodeId, account, want)
        : leaseInSteps(db, nodeId, account, want),

    async giveBack(nodeId: string, { kind, ownerId }: AccountName, amount: number): Promise<void> {
      await db.transaction().execute(async trx => {
        await trx
          .updateTable('accounts')
          .set(row => ({ held: row('held', '-', amount) }))
          .where('kind', '=', kind)
          .where('owner_id', '=', ownerId)
          .execute()
        await trx
          .updateTable('leases')
          .set(row => ({ amount: row('amount', '-', amount) }))
          .where('node_id', '=', nodeId)
          .where('kind', '=', kind)
          .where('owner_id', '=', ownerId)
          .execute()
      })
    },

    async giveBackAll(nodeId: string): Promise<void> {
      await db.transaction().execute(async trx => {
        await sql`update accounts set held = accounts.held - leases.amount from leases
          where leases.node_id = ${nodeId} and leases.kind = accounts.kind and leases.owner_id = accounts.owner_id`.execute(
          trx,
        )
        await trx.deleteFrom('leases').where('node_id', '=', nodeId).execute()
      })
    },

    leasesOf: (nodeId: string) =>
      db
        .selectFrom('leases')
        .select(['kind', 'owner_id as ownerId', 'amount'])
        .where('node_id', '=', nodeId)
        .execute(),

    /** Asked of the usage rows, which are found by request and are written in the same transaction as the entry. */
    async settledAmong(requestIds: readonly string[]): Promise<ReadonlySet<string>> {
      const found = new Set<string>()
      for (const some of chunksOf(requestIds, REQUESTS_AT_ONCE))
        for (const { request_id } of await db
          .selectFrom('logs')
          .select('request_id')
          .where('request_id', 'in', some)
          .where('type', 'in', [LOG_TYPE.consume, LOG_TYPE.error])
          .execute())
          found.add(request_id)
      return found
    },

    async apply(nodeId: string, { settled: numbered, lastLsn, oldestOpenLsn }: SettledBatch): Promise<void> {
      await db.transaction().execute(async trx => {
        const node = await trx
          .updateTable('nodes')
          .set({ applied_lsn: lastLsn, oldest_open_lsn: oldestOpenLsn })
          .where('id', '=', nodeId)
          .where('applied_lsn', '<', lastLsn)
          .executeTakeFirst()
        // The batch is in already: the commit of an earlier try went through although nobody heard of it.
        if (node.numUpdatedRows === 0n) return
        const settled = numbered.map(({ record }) => record)
        await moveAccounts(trx, engine, nodeId, movesOf(settled))
        await appendEntries(trx, engine, nodeId, settled)
        await appendLogs(trx, engine, settled)
        await addRollups(trx, engine, settled)
        await addDoubts(trx, engine, settled)
        await touchUsed(trx, engine, settled)
      })
    },
  }
}
