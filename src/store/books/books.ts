import { sql } from 'kysely'
import type { AccountId } from '../../domain/account.ts'
import type { ChainKey } from '../../domain/chain.ts'
import { epochOf } from '../../domain/node.ts'
import type { Settled } from '../../domain/settled.ts'
import { storableJson } from '../../domain/text.ts'
import { chunksOf } from '../engine/chunks.ts'
import { pipelineOf, type Statement } from '../engine/postgres.ts'
import type { Engine } from '../engine/schema.ts'
import { applyOnSqlite } from '../engine/sqlite.ts'
import { type Db, type Trx, transact } from '../engine/store.ts'
import { appendSystemAudit } from '../records/audit.ts'
import { LOG_TYPE } from '../usage/logs.ts'
import { type BookChange, type ChangeResult, chainOf, changesOf, type Position } from './apply.ts'
import { chainKeyOf } from './chain-key.ts'
import { EMPTY_JOURNAL, startChain } from './chains.ts'

export { chainOf }

const REQUESTS_AT_ONCE = 500

type SettledBatch = Omit<Position, 'nodeId'> & {
  /** A JSON array of settled requests, in UTF-8. It is parsed only where it is applied. */
  readonly settled: Buffer
}

/** The statements of a change. Its rows are one JSON parameter. */
function statementsOf({ statement, columns, rows, shared }: BookChange): Statement[] {
  if (rows.length === 0) return []
  const fields = columns.map(([name, type], index) => `(value ->> ${index})::${type} as ${name}`).join(', ')
  const table = `(select ${fields} from jsonb_array_elements($1::jsonb) as value) as input`
  const input = { table, insertSource: `select ${columns.map(([name]) => name).join(', ')} from ${table}` }
  const values = [storableJson(JSON.stringify(rows))]
  const main = { text: statement(input), values }
  if (!shared) return [main]
  const key = shared.key.join(', ')
  const locking = `select from ${shared.table} where (${key}) in (select ${key} from ${table})
    order by ${key} for no key update`
  return [{ text: locking, values }, main]
}

/** Sends the statements of all changes at once. */
async function runOnPostgres(trx: Trx, changes: readonly BookChange[]): Promise<ChangeResult[]> {
  const statements = changes.map(statementsOf)
  const { rows: results } = await trx.executeQuery(pipelineOf(statements.flat()))
  let next = 0
  return statements.map(({ length }) => {
    next += length
    return length === 0 ? { count: 0, rows: [] } : (results[next - 1] as ChangeResult)
  })
}

async function applyOnPostgres(db: Db, key: ChainKey, position: Position, json: Buffer): Promise<void> {
  const settled = JSON.parse(json.toString()) as Settled[]
  await transact(db, async trx => {
    const changes = changesOf(position, settled, key)
    for (let step = changes.next(); !step.done; ) step = changes.next(await runOnPostgres(trx, step.value))
  })
}

type LeaseRequest = AccountId & { readonly nodeId: string; readonly number: number }

/** The amount granted to a lease request that was executed before. */
async function grantedTo(
  db: Db,
  { nodeId, kind, ownerId, number }: LeaseRequest,
): Promise<number | undefined> {
  const lease = await db
    .selectFrom('leases')
    .select('granted')
    .where('node_id', '=', nodeId)
    .where('kind', '=', kind)
    .where('owner_id', '=', ownerId)
    .where('number', '>=', number)
    .executeTakeFirst()
  return lease?.granted
}

/** A statement of an earlier process may arrive late, and so may one of a node that is retired: no process knows its grant. */
async function mustBeCurrent(db: Db, { nodeId, number }: LeaseRequest): Promise<void> {
  const node = await db
    .selectFrom('nodes')
    .select('id')
    .where('id', '=', nodeId)
    .where(row => row.between('epoch', 1, epochOf(number)))
    .executeTakeFirst()
  if (!node) throw new Error(`the node ${nodeId} is retired, or was started again; nothing was leased`)
}

/**
 * One statement, so that a busy account is locked as briefly as possible. The account is locked before the lease is read: an
 * earlier unacknowledged statement may have run, or may be running concurrently.
 */
async function leaseInOneStatement(db: Db, name: LeaseRequest, want: number): Promise<number> {
  const { nodeId, kind, ownerId, number } = name
  const { rows } = await sql<{ amount: number }>`
    with free as (
      select greatest(0, least(${want}::bigint, credited - posted - held)) as amount from accounts
      where kind = ${kind} and owner_id = ${ownerId} for update
    ), current as (
      select id from nodes where id = ${nodeId} and epoch between 1 and ${epochOf(number)}::bigint
    ), noted as (
      insert into leases (node_id, kind, owner_id, amount, number, granted)
      select id, ${kind}::text, ${ownerId}::bigint, amount, ${number}::bigint, amount from free, current
      on conflict (node_id, kind, owner_id) do update
      set amount = leases.amount + excluded.amount, number = excluded.number, granted = excluded.granted
      where leases.number < excluded.number returning granted
    ), moved as (
      update accounts set held = held + noted.granted from noted
      where kind = ${kind} and owner_id = ${ownerId} and noted.granted > 0
    ) select granted as amount from noted`.execute(db)
  const granted = rows[0]?.amount ?? (await grantedTo(db, name))
  if (granted === undefined) await mustBeCurrent(db, name)
  return granted ?? 0
}

/** SQLite has one writer, so a transaction of several statements is safe. */
const leaseInTransaction = (db: Db, name: LeaseRequest, want: number): Promise<number> =>
  transact(db, async trx => {
    const { nodeId, kind, ownerId, number } = name
    const before = await grantedTo(trx, name)
    if (before !== undefined) return before
    await mustBeCurrent(trx, name)
    const account = await trx
      .selectFrom('accounts')
      .select(['credited', 'posted', 'held'])
      .where('kind', '=', kind)
      .where('owner_id', '=', ownerId)
      .executeTakeFirst()
    if (!account) return 0
    const granted = Math.max(0, Math.min(want, account.credited - account.posted - account.held))
    await trx
      .updateTable('accounts')
      .set(row => ({ held: row('held', '+', granted) }))
      .where('kind', '=', kind)
      .where('owner_id', '=', ownerId)
      .execute()
    await trx
      .insertInto('leases')
      .values({ node_id: nodeId, kind, owner_id: ownerId, amount: granted, number, granted })
      .onConflict(conflict =>
        conflict
          .columns(['node_id', 'kind', 'owner_id'])
          .doUpdateSet({ amount: sql<number>`leases.amount + ${granted}`, number, granted }),
      )
      .execute()
    return granted
  })

export const CHAIN_START = 'chain.start'

/** The audit log names every chain of a node, so that the removal of a whole chain is detected. */
const recordChain = (trx: Trx, chain: string, time: number) =>
  appendSystemAudit(trx, { time, action: CHAIN_START, target: `chain:${chain}` })

/** An operator has retired the node: its leases are returned, and its journal must not be applied any more. */
export class RetiredNodeError extends Error {
  constructor(nodeId: string) {
    super(
      `the node ${nodeId} was retired, so its journal is not applied; move its folder "nodes/${nodeId}" out of the data directory to start with a new node`,
    )
    this.name = 'RetiredNodeError'
  }
}

/** The ledger's access to the store. Each function is one transaction. PostgreSQL gets the batches through `batchDb`. */
export function createBooks(db: Db, engine: Engine, batchDb: Db = db) {
  return {
    async openNode(nodeId: string, previousEpoch: number, time: number) {
      return transact(db, async trx => {
        const chain = chainOf(nodeId)
        if (await startChain(trx, chain, EMPTY_JOURNAL)) await recordChain(trx, chain, time)
        const row = await trx
          .insertInto('nodes')
          .values({
            id: nodeId,
            epoch: previousEpoch + 1,
            applied_lsn: EMPTY_JOURNAL.position,
            oldest_open_lsn: EMPTY_JOURNAL.oldestOpen,
            started_time: time,
          })
          .onConflict(conflict =>
            conflict
              .column('id')
              .doUpdateSet({
                epoch: sql<number>`1 + case when nodes.epoch < ${previousEpoch} then ${previousEpoch} else nodes.epoch end`,
                started_time: time,
              })
              .where('nodes.epoch', '>', 0),
          )
          .returning(['applied_lsn', 'oldest_open_lsn', 'epoch'])
          .executeTakeFirst()
        if (!row) throw new RetiredNodeError(nodeId)
        return { appliedLsn: row.applied_lsn, oldestOpenLsn: row.oldest_open_lsn, epoch: row.epoch }
      })
    },

    async reopenNode(nodeId: string, epoch: number, time: number) {
      return transact(db, async trx => {
        const chain = chainOf(nodeId)
        if (await startChain(trx, chain, EMPTY_JOURNAL)) await recordChain(trx, chain, time)
        const row = await trx
          .insertInto('nodes')
          .values({
            id: nodeId,
            epoch,
            applied_lsn: EMPTY_JOURNAL.position,
            oldest_open_lsn: EMPTY_JOURNAL.oldestOpen,
            started_time: time,
          })
          .onConflict(conflict =>
            conflict
              .column('id')
              .doUpdateSet({
                epoch: sql<number>`case when nodes.epoch < ${epoch} then ${epoch} else nodes.epoch end`,
              })
              .where('nodes.epoch', '>', 0),
          )
          .returning('applied_lsn')
          .executeTakeFirst()
        if (!row) throw new RetiredNodeError(nodeId)
        return { appliedLsn: row.applied_lsn }
      })
    },

    async setLease(nodeId: string, { kind, ownerId }: AccountId, amount: number, number: number) {
      return transact(db, async trx => {
        const accounts = trx
          .selectFrom('accounts')
          .select(['credited', 'posted', 'held'])
          .where('kind', '=', kind)
          .where('owner_id', '=', ownerId)
        const account = await (engine === 'postgres' ? accounts.forUpdate() : accounts).executeTakeFirst()
        if (!account) return 0
        const lease = await trx
          .selectFrom('leases')
          .select(['amount', 'number'])
          .where('node_id', '=', nodeId)
          .where('kind', '=', kind)
          .where('owner_id', '=', ownerId)
          .executeTakeFirst()
        const before = lease?.amount ?? 0
        // This change was executed before.
        if (lease && lease.number >= number) return before
        const free = Math.max(0, account.credited - account.posted - account.held)
        const difference = Math.min(amount - before, free)
        const after = before + difference
        await trx
          .insertInto('leases')
          .values({ node_id: nodeId, kind, owner_id: ownerId, amount: after, number, granted: 0 })
          .onConflict(conflict =>
            conflict
              .columns(['node_id', 'kind', 'owner_id'])
              .doUpdateSet({ amount: after, number, granted: 0 }),
          )
          .execute()
        await trx
          .updateTable('accounts')
          .set(row => ({ held: row('held', '+', difference) }))
          .where('kind', '=', kind)
          .where('owner_id', '=', ownerId)
          .execute()
        return after
      })
    },

    async findAccount({ kind, ownerId }: AccountId) {
      const row = await db
        .selectFrom('accounts')
        .select('unlimited')
        .where('kind', '=', kind)
        .where('owner_id', '=', ownerId)
        .executeTakeFirst()
      return row && { isUnlimited: row.unlimited === 1 }
    },

    /** Leases at most `want`: the spent and the leased amount together never exceed the credit of the account. */
    lease(nodeId: string, account: AccountId, want: number, number: number): Promise<number> {
      const name = { ...account, nodeId, number }
      return engine === 'postgres' ? leaseInOneStatement(db, name, want) : leaseInTransaction(db, name, want)
    },

    async returnLease(
      nodeId: string,
      { kind, ownerId }: AccountId,
      amount: number,
      number: number,
    ): Promise<void> {
      await transact(db, async trx => {
        const account = trx
          .selectFrom('accounts')
          .select('owner_id')
          .where('kind', '=', kind)
          .where('owner_id', '=', ownerId)
        // The account is always locked before the lease, so that transactions cannot deadlock.
        await (engine === 'postgres' ? account.forUpdate() : account).execute()
        const { numUpdatedRows } = await trx
          .updateTable('leases')
          .set(row => ({ amount: row('amount', '-', amount), number }))
          .where('node_id', '=', nodeId)
          .where('kind', '=', kind)
          .where('owner_id', '=', ownerId)
          .where('number', '<', number)
          .executeTakeFirstOrThrow()
        // This change was executed before.
        if (numUpdatedRows === 0n) return
        await trx
          .updateTable('accounts')
          .set(row => ({ held: row('held', '-', amount) }))
          .where('kind', '=', kind)
          .where('owner_id', '=', ownerId)
          .execute()
      })
    },

    async returnAllLeases(nodeId: string): Promise<void> {
      await transact(db, async trx => {
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

    /** Reads usage rows, which have an index by request and are written in the same transaction as the entry. */
    async settledAmong(requestIds: readonly string[]): Promise<ReadonlySet<string>> {
      const settled = new Set<string>()
      for (const some of chunksOf(requestIds, REQUESTS_AT_ONCE))
        for (const { request_id } of await db
          .selectFrom('logs')
          .select('request_id')
          .where('request_id', 'in', some)
          .where('type', 'in', [LOG_TYPE.consume, LOG_TYPE.error])
          .execute())
          settled.add(request_id)
      return settled
    },

    async apply(nodeId: string, { settled, ...place }: SettledBatch): Promise<void> {
      const position = { nodeId, ...place }
      if (engine === 'postgres') return applyOnPostgres(batchDb, chainKeyOf(db), position, settled)
      // The copy has its own memory, which is moved to the thread.
      const copy = new Uint8Array(settled)
      await applyOnSqlite(db, { position, settled: copy, key: chainKeyOf(db).bytes.toString('base64') })
    },
  }
}
