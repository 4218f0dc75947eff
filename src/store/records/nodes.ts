import { type RawBuilder, sql } from 'kysely'
import type { AccountId } from '../../domain/account.ts'
import type { StoredNodeState } from '../../domain/node.ts'
import { AUDIT_CHAIN } from '../books/chains.ts'
import { notifySql } from '../engine/listener.ts'
import type { Engine } from '../engine/schema.ts'
import type { Db } from '../engine/store.ts'

/** How a node presents itself to the others. */
export type NodeIdentity = {
  readonly nodeId: string
  readonly machine: string
  readonly name: string
  readonly address: string
  readonly version: string
  readonly fenceMs: number
  /** Counts the starts of the node. */
  readonly epoch: number
  /** The ids of its master secrets. */
  readonly secretIds: readonly string[]
}

/** A node as its row describes it. */
export type NodeHeartbeat = {
  readonly nodeId: string
  readonly machine: string
  readonly state: StoredNodeState
  readonly fenceMs: number
  readonly beatMs: number
  readonly applied: number
}

export type BeatReport = {
  /** False: another process has the node, or the node is retired. */
  readonly isMember: boolean
  /** The current position of the audit chain. */
  readonly position: number
  /** The time of the database. */
  readonly nowMs: number
  readonly nodes: readonly NodeHeartbeat[]
}

const nowMsOf = (engine: Engine): RawBuilder<number> =>
  engine === 'postgres'
    ? sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`
    : sql<number>`cast(unixepoch('subsec') * 1000 as integer)`

const POSITION = sql<number>`(select seq from chains where name = ${AUDIT_CHAIN})`

/**
 * Writes the row of a node that starts, or whose row was lost. Returns the position of the changes that all later reads include;
 * undefined if the node is retired, or was started again: the statement of a process that has died may be executed late. An
 * embedded store has nodes of one machine only, so rows of earlier starts are deleted.
 */
export async function joinFleet(db: Db, engine: Engine, identity: NodeIdentity): Promise<number | undefined> {
  const { nodeId, machine, name, address, version, fenceMs, epoch, secretIds } = identity
  if (engine === 'sqlite')
    await db
      .deleteFrom('node_heartbeats')
      .where('machine', '<>', machine)
      .where('state', '<>', 'retired')
      .execute()
  const columns = sql`node_id, machine, name, address, version, fence_ms, state, in_flight, beat_ms, applied, secret_ids`
  const { rows } = await sql<{ applied: number }>`
    insert into node_heartbeats (${columns})
    select ${nodeId}, ${machine}, ${name}, ${address}, ${version}, ${sql.lit(fenceMs)}, 'up', 0, ${nowMsOf(engine)}, ${POSITION}, ${secretIds.join()}
    where not exists (select 1 from nodes where id = ${nodeId} and (epoch > ${epoch} or epoch < 0))
    on conflict (node_id) do update set machine = excluded.machine, name = excluded.name, address = excluded.address,
      version = excluded.version, fence_ms = excluded.fence_ms, state = excluded.state, in_flight = excluded.in_flight,
      beat_ms = excluded.beat_ms, applied = excluded.applied, secret_ids = excluded.secret_ids
    where node_heartbeats.state <> 'retired'
    returning applied`.execute(db)
  return rows[0]?.applied
}

/** Deletes the row of a node that no process runs. With a machine: only if the row belongs to it. */
export async function leaveFleet(db: Db, nodeId: string, machine?: string): Promise<void> {
  let query = db.deleteFrom('node_heartbeats').where('node_id', '=', nodeId).where('state', '<>', 'retired')
  if (machine !== undefined) query = query.where('machine', '=', machine)
  await query.execute()
}

type HeartbeatRow = {
  node_id: string
  machine: string
  state: StoredNodeState
  fence_ms: number
  beat_ms: number
  applied: number
  now_ms: number
  position: number
}

const heartbeatOf = (row: HeartbeatRow): NodeHeartbeat => ({
  nodeId: row.node_id,
  machine: row.machine,
  state: row.state,
  fenceMs: row.fence_ms,
  beatMs: row.beat_ms,
  applied: row.applied,
})

/** A node cannot have applied changes that the store does not have: the store has lost them with a failover. */
const appliedSql = (applied: number) => sql`least(greatest(applied, ${applied}::bigint), ${POSITION})`

/** One statement on PostgreSQL: writes the beat of a node, and reads the rows of all nodes. */
export async function writeBeat(
  db: Db,
  { nodeId, machine }: Pick<NodeIdentity, 'nodeId' | 'machine'>,
  beat: { readonly renews: boolean; readonly applied: number; readonly inFlight: number },
): Promise<BeatReport> {
  const now = nowMsOf('postgres')
  const { rows } = await sql<HeartbeatRow & { members: number }>`
    with beat as (
      update node_heartbeats set applied = ${appliedSql(beat.applied)},
        in_flight = ${beat.inFlight}::bigint,
        beat_ms = case when ${beat.renews}::boolean then ${now} else beat_ms end
      where node_id = ${nodeId} and machine = ${machine} and state <> 'retired' returning node_id
    ) select node_id, machine, state, fence_ms, beat_ms, applied, ${now} as now_ms, ${POSITION} as position,
      (select count(*) from beat) as members from node_heartbeats`.execute(db)
  const [first] = rows
  return {
    isMember: first?.members === 1,
    position: first?.position ?? 0,
    nowMs: first?.now_ms ?? 0,
    nodes: rows.map(heartbeatOf),
  }
}

/**
 * The nodes of all other machines and the current position, in one statement, which also notifies them if there are any.
 * Call it after the commit of a change.
 */
export async function wakeOtherMachines(
  db: Db,
  machine: string,
  payload: string,
): Promise<Omit<BeatReport, 'isMember'>> {
  const { rows } = await sql<HeartbeatRow>`
    select node_id, machine, state, fence_ms, beat_ms, applied, ${nowMsOf('postgres')} as now_ms,
      ${POSITION} as position, ${notifySql(payload)}
    from node_heartbeats where machine <> ${machine} and state <> 'retired'`.execute(db)
  return {
    position: rows[0]?.position ?? 0,
    nowMs: rows[0]?.now_ms ?? 0,
    nodes: rows.map(heartbeatOf),
  }
}

/** The position of the last change. */
export async function changePosition(db: Db): Promise<number> {
  const { seq } = await db
    .selectFrom('chains')
    .select('seq')
    .where('name', '=', AUDIT_CHAIN)
    .executeTakeFirstOrThrow()
  return seq
}

/** Whether nodes of other machines exist. */
export async function hasOtherMachines(db: Db, machine: string): Promise<boolean> {
  const row = await db
    .selectFrom('node_heartbeats')
    .select('node_id')
    .where('machine', '<>', machine)
    .where('state', '<>', 'retired')
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** The nodes besides these that are not retired, with the ids of their master secrets. */
export async function secretsOfOthers(db: Db, nodeIds: readonly string[]) {
  const rows = await db
    .selectFrom('node_heartbeats')
    .select(['node_id', 'secret_ids'])
    .where('state', '<>', 'retired')
    .orderBy('node_id')
    .execute()
  return rows
    .filter(({ node_id }) => !nodeIds.includes(node_id))
    .map(({ node_id, secret_ids }) => ({ nodeId: node_id, secretIds: secret_ids.split(',') }))
}

/** The leases of these nodes on these accounts, always in the same order. */
export async function leaseStates(db: Db, nodeIds: readonly string[], accounts: readonly AccountId[]) {
  if (nodeIds.length === 0 || accounts.length === 0) return []
  return db
    .selectFrom('leases')
    .select(['node_id as nodeId', 'kind', 'owner_id as ownerId', 'amount', 'number as changeNumber'])
    .where('node_id', 'in', nodeIds)
    .where(({ or, and }) => or(accounts.map(({ kind, ownerId }) => and({ kind, owner_id: ownerId }))))
    .orderBy('node_id')
    .orderBy('kind')
    .orderBy('owner_id')
    .execute()
}

/** A lock of the connection, which all machines share. */
export async function tryFleetLock(db: Db, name: string): Promise<boolean> {
  const { rows } = await sql<{ is_locked: boolean }>`
    select pg_try_advisory_lock(hashtextextended(${`sluice ${name}`}, 0)) as is_locked`.execute(db)
  return rows[0]?.is_locked === true
}

export async function releaseFleetLock(db: Db, name: string): Promise<void> {
  await sql`select pg_advisory_unlock(hashtextextended(${`sluice ${name}`}, 0))`.execute(db)
}

/** Writes the position that a node has applied, and notifies the nodes that may wait for it. */
export async function acknowledgePosition(
  db: Db,
  nodeId: string,
  applied: number,
  payload: string,
): Promise<void> {
  await sql`with applied as (
      update node_heartbeats set applied = ${appliedSql(applied)}
      where node_id = ${nodeId} returning node_id
    ) select ${notifySql(payload)} from applied`.execute(db)
}

/** The next changes, in their order. */
export const changesAfter = (db: Db, position: number, limit: number) =>
  db
    .selectFrom('audit')
    .select(['seq', 'target'])
    .where('seq', '>', position)
    .orderBy('seq')
    .limit(limit)
    .execute()

export const findNode = (db: Db, engine: Engine, nodeId: string) =>
  db
    .selectFrom('node_heartbeats')
    .selectAll()
    .select(nowMsOf(engine).as('now_ms'))
    .where('node_id', '=', nodeId)
    .executeTakeFirst()

/** Every node with the amount that users have leased to it, and the age of its heartbeat. */
export const listNodes = (db: Db, engine: Engine) =>
  db
    .selectFrom('node_heartbeats')
    .select(['node_id', 'name', 'address', 'version', 'state', 'fence_ms', 'beat_ms', 'applied', 'in_flight'])
    .select(({ selectFrom }) => [
      nowMsOf(engine).as('now_ms'),
      POSITION.as('position'),
      selectFrom('leases')
        .whereRef('leases.node_id', '=', 'node_heartbeats.node_id')
        .where('leases.kind', '=', 'user')
        .select(({ fn }) => fn.sum<number>('leases.amount').as('leased'))
        .as('leased'),
    ])
    .orderBy('name')
    .orderBy('node_id')
    .execute()

/** Nodes that are not retired, with the names of those that have sent a heartbeat. */
export const listUnretired = (db: Db) =>
  db
    .selectFrom('nodes')
    .leftJoin('node_heartbeats', 'node_heartbeats.node_id', 'nodes.id')
    .select(['nodes.id', 'node_heartbeats.name'])
    .where('nodes.epoch', '>=', 0)
    .orderBy('nodes.id')
    .execute()

export async function setNodeAddress(db: Db, nodeId: string, address: string): Promise<void> {
  await db.updateTable('node_heartbeats').set({ address }).where('node_id', '=', nodeId).execute()
}
