import { sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'
import type { Db } from '../engine/store.ts'

/** The records that are shipped from the store. */
export type ShippedStream = 'usage' | 'audit'

/** How far a stream is shipped, and which process ships it until when. */
type ShipCursor = { readonly after: number; readonly by: string; readonly untilMs: number }

export type Shipper = { readonly by: string; readonly nowMs: number; readonly leaseMs: number }

/** How far the clocks of two machines may differ. */
const MAX_SKEW_MS = 600_000

const keyOf = (stream: ShippedStream) => `ship_${stream}`

const find = async (db: Db, stream: ShippedStream): Promise<string | undefined> =>
  (await db.selectFrom('meta').select('value').where('key', '=', keyOf(stream)).executeTakeFirst())?.value

/** Replaces the cursor, unless another process has changed it. */
async function replace(db: Db, stream: ShippedStream, old: string, cursor: ShipCursor): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('meta')
    .set({ value: JSON.stringify(cursor) })
    .where('key', '=', keyOf(stream))
    .where('value', '=', old)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Shipping begins with the records that are written after its first start. */
export async function openShipCursor(db: Db, stream: ShippedStream): Promise<void> {
  if ((await find(db, stream)) !== undefined) return
  const { last } =
    stream === 'usage'
      ? await db
          .selectFrom('logs')
          .select(({ fn }) => fn.max('id').as('last'))
          .executeTakeFirstOrThrow()
      : await db
          .selectFrom('audit')
          .select(({ fn }) => fn.max('seq').as('last'))
          .executeTakeFirstOrThrow()
  const cursor: ShipCursor = { after: Number(last ?? 0), by: '', untilMs: 0 }
  await db
    .insertInto('meta')
    .values({ key: keyOf(stream), value: JSON.stringify(cursor) })
    .onConflict(conflict => conflict.column('key').doNothing())
    .execute()
}

/** Leases a stream to this process. Returns how far it is shipped; undefined if another process ships it. */
export async function leaseShipCursor(
  db: Db,
  stream: ShippedStream,
  { by, nowMs, leaseMs }: Shipper,
): Promise<number | undefined> {
  const old = await find(db, stream)
  if (old === undefined) return undefined
  const cursor = JSON.parse(old) as ShipCursor
  // A lease that ends later than any was written before the clock was set back.
  const isLeased = cursor.untilMs > nowMs && cursor.untilMs <= nowMs + leaseMs + MAX_SKEW_MS
  if (cursor.by !== by && isLeased) return undefined
  if (cursor.by === by && cursor.untilMs > nowMs + leaseMs / 2) return cursor.after
  const isOurs = await replace(db, stream, old, { after: cursor.after, by, untilMs: nowMs + leaseMs })
  return isOurs ? cursor.after : undefined
}

/** Saves that everything up to `after` is shipped, and extends the lease. False if another process has it now. */
export async function moveShipCursor(
  db: Db,
  stream: ShippedStream,
  after: number,
  { by, nowMs, leaseMs }: Shipper,
): Promise<boolean> {
  const old = await find(db, stream)
  if (old === undefined || (JSON.parse(old) as ShipCursor).by !== by) return false
  return replace(db, stream, old, { after, by, untilMs: nowMs + leaseMs })
}

/** Ends the lease, so that another process can take over at once. */
export async function releaseShipCursor(db: Db, stream: ShippedStream, by: string): Promise<void> {
  const old = await find(db, stream)
  const cursor = old === undefined ? undefined : (JSON.parse(old) as ShipCursor)
  if (old !== undefined && cursor?.by === by) await replace(db, stream, old, { ...cursor, untilMs: 0 })
}

const SETTLE_MS = 1_000
const POLL_MS = 200
const MAX_POLLS = 100

/**
 * The highest id of the usage log below which no row is missing. PostgreSQL assigns ids before it commits, so a lower id may
 * appear later: wait until all transactions that were running have ended. Undefined if there is no id above `after`, or if
 * the transactions do not end. `wait` returns false if the process is stopping.
 */
export async function completeUsageId(
  { db, engine }: { readonly db: Db; readonly engine: Engine },
  after: number,
  wait: (ms: number) => Promise<boolean>,
): Promise<number | undefined> {
  const { last } = await db
    .selectFrom('logs')
    .select(({ fn }) => fn.max('id').as('last'))
    .executeTakeFirstOrThrow()
  const id = Number(last ?? 0)
  if (id <= after) return undefined
  if (engine === 'sqlite') return id
  // A transaction takes an id from the sequence a moment before it gets a number itself.
  if (!(await wait(SETTLE_MS))) return undefined
  const snapshot = async () => {
    const { rows } = await sql<{ oldest: string; next: string }>`
      select pg_snapshot_xmin(pg_current_snapshot())::text as oldest,
        pg_snapshot_xmax(pg_current_snapshot())::text as next`.execute(db)
    return { oldest: BigInt(rows[0]?.oldest ?? 0), next: BigInt(rows[0]?.next ?? 0) }
  }
  const { next } = await snapshot()
  for (let poll = 0; poll < MAX_POLLS; poll++) {
    if ((await snapshot()).oldest >= next) return id
    if (!(await wait(POLL_MS))) return undefined
  }
  return undefined
}
