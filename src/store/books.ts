import { CompiledQuery, sql } from 'kysely'
import type { Settled } from '../domain/settled.ts'
import { applying, type Change, chainOf, type Met } from './apply.ts'
import { APPLY_SETTLED } from './apply-sqlite.ts'
import { startChain } from './chains.ts'
import { chunksOf } from './chunks.ts'
import { LOG_TYPE } from './logs.ts'
import type { AccountKind, Engine } from './schema.ts'
import { type Db, type Trx, transact } from './store.ts'

export { chainOf }

const REQUESTS_AT_ONCE = 500

type AccountName = { readonly kind: AccountKind; readonly ownerId: number }

export type SettledBatch = {
  /** Settled requests, each as JSON: they are read where they are written down. */
  readonly settled: readonly string[]
  readonly lastLsn: number
  readonly oldestOpenLsn: number
}

/** A change's rows as one parameter of JSON. */
async function runOnPostgres(trx: Trx, { statement, columns, rows, shared }: Change): Promise<Met> {
  if (rows.length === 0) return { count: 0, rows: [] }
  const fields = columns.map(([name, type], index) => `(value ->> ${index})::${type} as ${name}`).join(', ')
  const table = `(select ${fields} from jsonb_array_elements($1::jsonb) as value) as given`
  const given = { table, inserted: `select ${columns.map(([name]) => name).join(', ')} from ${table}` }
  const parameters = [JSON.stringify(rows)]
  if (shared) {
    const key = shared.key.join(', ')
    const taking = `select from ${shared.table} where (${key}) in (select ${key} from ${table})
      order by ${key} for no key update`
    await trx.executeQuery(CompiledQuery.raw(taking, parameters))
  }
  const met = await trx.executeQuery(CompiledQuery.raw(statement(given), parameters))
  return { count: Number(met.numAffectedRows ?? 0n), rows: met.rows }
}

async function applyOnPostgres(db: Db, nodeId: string, json: string, batch: SettledBatch): Promise<void> {
  const settled = JSON.parse(json) as Settled[]
  await transact(db, async trx => {
    const changes = applying({ ...batch, nodeId }, settled)
    for (let step = changes.next(); !step.done; ) step = changes.next(await runOnPostgres(trx, step.value))
  })
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
  transact(db, async trx => {
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
      return transact(db, async trx => {
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
      await transact(db, async trx => {
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

    async apply(nodeId: string, batch: SettledBatch): Promise<void> {
      const json = `[${batch.settled.join(',')}]`
      if (engine === 'postgres') return applyOnPostgres(db, nodeId, json, batch)
      // In SQLite's own thread: a statement's way there and back would cost more than the statement.
      await db.executeQuery(
        CompiledQuery.raw(APPLY_SETTLED, [nodeId, batch.lastLsn, batch.oldestOpenLsn, json]),
      )
    },
  }
}
