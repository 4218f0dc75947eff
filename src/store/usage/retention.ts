import { sql } from 'kysely'
import { IDEMPOTENCY_LIFETIME_S } from '../../domain/idempotency.ts'
import type { Engine } from '../engine/schema.ts'
import type { Db } from '../engine/store.ts'
import { dropExpired, tablesToSweep } from '../partitions/expiry.ts'
import { LOGS } from '../partitions/tables.ts'
import { DEAD_KEEP_S, SENT_KEEP_S } from '../records/alert-deliveries.ts'
import { CANARY_TIMES_KEEP_DAYS, removeCanaryTimes } from '../records/canaries.ts'
import { SESSION_KEEP_S } from '../records/sessions.ts'
import { readSettings } from '../records/settings.ts'
import { bodyBytes, eraseBodies, removeOldBodies } from './bodies.ts'
import { LOG_TYPE } from './logs.ts'
import { eraseTags } from './tag-sums.ts'

type RetentionDeps = {
  readonly db: Db
  readonly engine: Engine
  /** After this time a session has ended even without a sign-out. */
  readonly sessionLastsS: number
  now(): number
  /** Whether this node runs the jobs of the fleet. */
  isLeader(): boolean
  /** Waits between two batches, so that the store stays available for other work. */
  pause(): Promise<void>
  onFailure(error: Error): void
}

type Removed = {
  readonly usage: number
  /** Partitions of usage rows, each as a whole. */
  readonly partitions: number
  readonly sessions: number
  readonly answers: number
  readonly tags: number
  readonly deliveries: number
  readonly bodies: number
}

type RemovedSome = { readonly count: number; readonly hasMore: boolean }

/** The types of usage rows that expire. Others, such as top-ups, are kept. */
const EXPIRING_TYPES = [LOG_TYPE.consume, LOG_TYPE.error, LOG_TYPE.system]
const DAY_S = 24 * 3600
/** A batch is one short transaction, which occupies SQLite's writer for some milliseconds. */
const BATCH = 100
const FIRST_AFTER_MS = 60_000
const EVERY_MS = 3600 * 1000
/** Bodies can be many: an hour of them could exceed their budget many times. */
const BODIES_EVERY_MS = 60_000
const MIB = 1_048_576

/**
 * Deletes expired usage rows, sessions, saved answers, alert messages and bodies in small batches. Ledger, rollups and audit
 * are never touched.
 */
export function createRetention({
  db,
  engine,
  sessionLastsS,
  now,
  isLeader,
  pause,
  onFailure,
}: RetentionDeps) {
  let isClosed = false
  let running: Promise<void> | undefined

  /** Runs batches until nothing more is due. */
  async function repeat(removeSome: () => Promise<RemovedSome>): Promise<number> {
    let removed = 0
    while (!isClosed && isLeader()) {
      const { count, hasMore } = await removeSome()
      removed += count
      if (!hasMore) break
      await pause()
    }
    return removed
  }

  /** Runs batches until one is not full. `removeSome` returns the number of deleted rows. */
  const drain = (removeSome: () => Promise<number>): Promise<number> =>
    repeat(async () => {
      const count = await removeSome()
      return { count, hasMore: count >= BATCH }
    })

  /** The time before which usage rows expire; undefined if they are kept. */
  async function usageExpiry(): Promise<{ readonly before: number; readonly days: number } | undefined> {
    const { usage_retention_days: days } = await readSettings(db)
    return days === 0 ? undefined : { before: now() - days * DAY_S, days }
  }

  async function removePartitions(): Promise<number> {
    const expiry = engine === 'postgres' ? await usageExpiry() : undefined
    if (!expiry) return 0
    const isActive = () => !isClosed && isLeader()
    return dropExpired({ db, before: expiry.before, types: EXPIRING_TYPES, pause, isActive })
  }

  async function removeUsage(): Promise<number> {
    const expiry = await usageExpiry()
    if (!expiry) return 0
    const tables = engine === 'postgres' ? await tablesToSweep(db, expiry.days) : [LOGS.name]
    let removed = 0
    for (const table of tables) removed += await removeRows(table, expiry.before)
    return removed
  }

  async function removeRows(table: string, before: number): Promise<number> {
    // A partition has the columns of the whole table.
    const rowsOf = table as 'logs'
    // Rows of other types are kept, so each batch starts at the end of the previous one instead of skipping them again.
    let from = 0
    return drain(async () => {
      const rows = await db
        .deleteFrom(rowsOf)
        .where('id', 'in', logs => {
          const oldest = logs
            .selectFrom(rowsOf)
            .select('id')
            .where('created_time', '>=', from)
            .where('created_time', '<', before)
            .where('type', 'in', EXPIRING_TYPES)
            .orderBy('created_time')
            .orderBy('id')
            .limit(BATCH)
          // A node of an older version may run this too. SKIP LOCKED avoids waiting for rows that it is deleting.
          return engine === 'postgres' ? oldest.forUpdate().skipLocked() : oldest
        })
        .returning('created_time')
        .execute()
      from = rows.reduce((latest, row) => Math.max(latest, row.created_time), from)
      return rows.length
    })
  }

  const removeSessions = () =>
    drain(async () => {
      const { numDeletedRows } = await db
        .deleteFrom('sessions')
        .where('id', 'in', sessions =>
          sessions
            .selectFrom('sessions')
            .select('id')
            .where(row =>
              row.or([
                row('ended_time', '<', now() - SESSION_KEEP_S),
                row('created_time', '<', now() - sessionLastsS - SESSION_KEEP_S),
              ]),
            )
            .orderBy('id')
            .limit(BATCH),
        )
        .executeTakeFirst()
      return Number(numDeletedRows)
    })

  const removeAnswers = () =>
    drain(async () => {
      const { numAffectedRows } = await sql`delete from idempotency where (user_id, path, key) in (
        select user_id, path, key from idempotency where created_time <= ${now() - IDEMPOTENCY_LIFETIME_S}
        order by created_time limit ${sql.lit(BATCH)})`.execute(db)
      return Number(numAffectedRows ?? 0)
    })

  /** Deleting a user removes the tags of the newest requests only. */
  const removeTags = () => drain(() => eraseTags({ db, engine }, undefined, BATCH))

  const removeDeliveries = () =>
    drain(async () => {
      const { numDeletedRows } = await db
        .deleteFrom('alert_deliveries')
        .where('id', 'in', deliveries =>
          deliveries
            .selectFrom('alert_deliveries')
            .select('id')
            .where(row =>
              row.or([
                row.and([row('status', '=', 'sent'), row('ended_time', '<', now() - SENT_KEEP_S)]),
                row.and([row('status', '=', 'dead'), row('ended_time', '<', now() - DEAD_KEEP_S)]),
              ]),
            )
            .orderBy('id')
            .limit(BATCH),
        )
        .executeTakeFirst()
      return Number(numDeletedRows)
    })

  /** Bodies of deleted users, expired bodies, and the oldest above the budget. */
  async function removeBodies(): Promise<number> {
    const { body_retention_days: days, body_budget_mb: budgetMb } = await readSettings(db)
    const before = days === 0 ? 0 : now() - days * DAY_S
    const erased = await repeat(() =>
      db.transaction().execute(trx => eraseBodies({ trx, engine }, undefined, BATCH)),
    )
    let excess = (await bodyBytes(db)) - budgetMb * MIB
    const removed = await repeat(async () => {
      const some = await removeOldBodies({ db, engine, before, excess, limit: BATCH })
      excess -= some.bytes
      return some
    })
    return erased + removed
  }

  /** The sums of a canary are kept. */
  const removeTimes = () => drain(() => removeCanaryTimes(db, now() - CANARY_TIMES_KEEP_DAYS * DAY_S, BATCH))

  async function sweep(): Promise<Removed> {
    await removeTimes()
    return {
      partitions: await removePartitions(),
      usage: await removeUsage(),
      sessions: await removeSessions(),
      answers: await removeAnswers(),
      tags: await removeTags(),
      deliveries: await removeDeliveries(),
      bodies: await removeBodies(),
    }
  }

  /** Runs never overlap. The first run over millions of rows may take longer than the interval. */
  function run(): void {
    if (!isLeader()) return
    running ??= sweep()
      .then(() => {}, onFailure)
      .finally(() => {
        running = undefined
      })
  }

  let removingBodies: Promise<void> | undefined
  function runBodies(): void {
    if (!isLeader()) return
    removingBodies ??= removeBodies()
      .then(() => {}, onFailure)
      .finally(() => {
        removingBodies = undefined
      })
  }

  const first = setTimeout(run, FIRST_AFTER_MS)
  const timer = setInterval(run, EVERY_MS)
  const bodiesTimer = setInterval(runBodies, BODIES_EVERY_MS)
  for (const each of [first, timer, bodiesTimer]) each.unref()

  return {
    sweep,
    /** Ends after the current batch. */
    async close(): Promise<void> {
      isClosed = true
      clearTimeout(first)
      clearInterval(timer)
      clearInterval(bodiesTimer)
      await running
      await removingBodies
    },
  }
}
