import { sql } from 'kysely'
import { FENCE_MARGIN_MS, nodeStateOf } from '../../domain/node.ts'
import type { Engine } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'
import { findNode } from './nodes.ts'
import { endLeases, takeOverUnconfirmed } from './videos.ts'

/** Why a node cannot be retired now. */
export type RetirementObstacle =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'running'; readonly until: number }

/** What retiring a node has returned. Amounts are nanodollars. */
export type Retirement = {
  /** Accounts of users with a lease. */
  readonly accounts: number
  /** The node may have spent at most this much without reporting it. It is in suspense. */
  readonly leased: number
}

/**
 * Whether the node can be retired. A node that is not fenced may still spend its leases. An embedded store has no nodes of
 * other machines, so its nodes run.
 */
export async function retirementObstacle(
  db: Db,
  engine: Engine,
  nodeId: string,
): Promise<RetirementObstacle | undefined> {
  const node = await findNode(db, engine, nodeId)
  if (!node) return { kind: 'unknown' }
  const ageMs = engine === 'postgres' ? node.now_ms - node.beat_ms : 0
  const state = nodeStateOf(node.state, ageMs, node.fence_ms)
  if (state === 'fenced' || state === 'retired') return undefined
  return { kind: 'running', until: Math.ceil((node.beat_ms + node.fence_ms + FENCE_MARGIN_MS) / 1_000) }
}

/** What unconfirmed video jobs of the node may cost users who had no lease that covers it, because they are not limited. */
async function suspendVideos(
  trx: Trx,
  nodeId: string,
  { leasedUsers, time }: { readonly leasedUsers: ReadonlySet<number>; readonly time: number },
): Promise<void> {
  const videos = (await takeOverUnconfirmed(trx, nodeId)).filter(({ user_id }) => !leasedUsers.has(user_id))
  if (videos.length === 0) return
  await trx
    .insertInto('suspense')
    .values(
      videos.map(({ id, request_id, user_id, token_id, channel_id, estimate }) => ({
        time,
        request_id,
        user_id,
        token_id,
        channel_id,
        amount: estimate,
        reason: `The node was retired before the provider confirmed the video job ${id}.`,
      })),
    )
    .execute()
}

/**
 * Retires a node that will not return: its records are refused from now on, its leases are returned, and what it may have spent of
 * them is an unresolved charge. The other nodes search for its unconfirmed video jobs. Retiring it again changes nothing.
 */
export async function retireNode(trx: Trx, nodeId: string, time: number): Promise<Retirement> {
  await trx
    .updateTable('node_heartbeats')
    .set({ state: 'retired', in_flight: 0 })
    .where('node_id', '=', nodeId)
    .execute()
  // This locks the row that every batch of the node changes first, so no batch is applied between these statements.
  await trx.updateTable('nodes').set({ epoch: sql<number>`-abs(epoch)` }).where('id', '=', nodeId).execute()
  const leases = await trx
    .selectFrom('leases')
    .select(['owner_id', 'amount'])
    .where('node_id', '=', nodeId)
    .where('kind', '=', 'user')
    .where('amount', '>', 0)
    .execute()
  if (leases.length > 0)
    await trx
      .insertInto('suspense')
      .values(
        leases.map(({ owner_id, amount }) => ({
          time,
          request_id: `node:${nodeId}`,
          user_id: owner_id,
          token_id: 0,
          channel_id: 0,
          amount,
          reason: 'The node was retired. It may have spent this leased amount.',
        })),
      )
      .execute()
  await sql`update accounts set held = accounts.held - leases.amount from leases
    where leases.node_id = ${nodeId} and leases.kind = accounts.kind and leases.owner_id = accounts.owner_id`.execute(
    trx,
  )
  await trx.deleteFrom('leases').where('node_id', '=', nodeId).execute()
  await endLeases(trx, nodeId)
  await suspendVideos(trx, nodeId, { leasedUsers: new Set(leases.map(({ owner_id }) => owner_id)), time })
  return { accounts: leases.length, leased: leases.reduce((sum, { amount }) => sum + amount, 0) }
}

/** Makes the gateway of a node stop as after SIGTERM: it reads this with its next heartbeat. False if there is no such node. */
export async function drainNode(trx: Trx, nodeId: string): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('node_heartbeats')
    .set({ state: 'draining' })
    .where('state', '=', 'up')
    .where('machine', 'in', eb =>
      eb.selectFrom('node_heartbeats').select('machine').where('node_id', '=', nodeId),
    )
    .executeTakeFirst()
  return numUpdatedRows > 0n
}
