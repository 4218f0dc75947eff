import { sql } from 'kysely'
import type { Db } from '../engine/store.ts'
import { releaseFleetLock, tryFleetLock } from '../records/nodes.ts'
import { readSettings } from '../records/settings.ts'
import { type Converted, convertTable } from './conversion.ts'
import { addPartitions } from './growth.ts'
import { listPartitions } from './partitions.ts'
import { ENTRIES_WIDTH_S, LOGS, PARTITIONED_TABLES, type PartitionedTable, usageWidthS } from './tables.ts'

type UpkeepDeps = {
  readonly db: Db
  openMaintenance(): Db
  now(): number
  pause(): Promise<void>
  /** Whether this node runs the jobs of the fleet. */
  isLeader(): boolean
  onConverted(converted: Converted): void
  onFailure(error: Error): void
}

const FIRST_AFTER_MS = 60_000
const EVERY_MS = 3600 * 1000
const LOCK = 'partitions'

/** Partitions the tables of an existing database, and makes partitions ahead. For PostgreSQL only. */
export function createPartitionUpkeep(deps: UpkeepDeps) {
  const { db, now, pause } = deps
  let isClosed = false
  let running: Promise<void> | undefined
  /** The server process of a running conversion. */
  let converter: number | undefined

  async function convert(table: PartitionedTable): Promise<void> {
    const maintenance = deps.openMaintenance()
    try {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(maintenance)
      // The server ends the long statement if this process dies.
      await sql`set client_connection_check_interval = '10s'`.execute(maintenance)
      if (!(await tryFleetLock(maintenance, LOCK))) return
      converter = rows[0]?.pid
      const converted = await convertTable({ db, maintenance, table, now: now(), pause })
      await releaseFleetLock(maintenance, LOCK)
      if (converted) deps.onConverted(converted)
    } finally {
      converter = undefined
      await maintenance.destroy()
    }
  }

  async function keep(): Promise<void> {
    const { usage_retention_days: days } = await readSettings(db)
    for (const table of PARTITIONED_TABLES) {
      if (isClosed) return
      if ((await listPartitions(db, table)).length === 0) await convert(table)
      // Another node may be converting it.
      if ((await listPartitions(db, table)).length === 0) continue
      const widthS = table === LOGS ? usageWidthS(days) : ENTRIES_WIDTH_S
      await addPartitions({ db, table, widthS, now: now(), pause })
    }
  }

  /** Runs never overlap. The first one on a large database takes long. */
  function run(): Promise<void> {
    running ??= keep().finally(() => {
      running = undefined
    })
    return running
  }

  const start = () => {
    if (!deps.isLeader()) return
    run().catch(error => {
      if (!isClosed) deps.onFailure(error)
    })
  }
  const first = setTimeout(start, FIRST_AFTER_MS)
  const timer = setInterval(start, EVERY_MS)
  for (const each of [first, timer]) each.unref()

  return {
    run,
    /** Cancels a conversion; the next leader starts it again. */
    async close(): Promise<void> {
      isClosed = true
      clearTimeout(first)
      clearInterval(timer)
      if (converter !== undefined)
        await sql`select pg_cancel_backend(${converter})`.execute(db).catch(() => {})
      await running?.catch(() => {})
    },
  }
}
