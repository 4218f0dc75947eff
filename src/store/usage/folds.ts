import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { chunksOf } from '../engine/chunks.ts'
import type { Engine, RollupSumRow } from '../engine/schema.ts'
import { type Db, transact } from '../engine/store.ts'
import { type FoldUnit, GRAINS, type Grain, kindOf, UNITS } from './fold-units.ts'

/** The `run` of a unit whose fold is complete. */
const DONE = ''
/** A unit is folded this long after its end, so that its last requests are applied. A later request invalidates the fold. */
const LATE_REQUESTS_S = 60
const FIRST_AFTER_MS = 2_000
const EVERY_MS = 60_000
const ROWS_AT_ONCE = 500

/** The starts of the folded units in a span. */
export async function foldedUnits(
  db: Db,
  unit: number,
  from: number,
  to: number,
): Promise<ReadonlySet<number>> {
  const rows = await db
    .selectFrom('rollup_folds')
    .select('start')
    .where('unit', '=', unit)
    .where('start', '>=', from)
    .where('start', '<=', to - unit)
    .where('run', '=', DONE)
    .execute()
  return new Set(rows.map(({ start }) => start))
}

const ZEROS = { user_id: 0, token_id: 0, channel_id: 0, model: '' } as const

async function readSums(
  db: Db,
  { unit, start, grain, step }: { unit: number; start: number; grain: Grain; step: number },
): Promise<RollupSumRow[]> {
  const bucket = sql<number>`bucket - bucket % ${sql.lit(step)}`
  const dimensions = GRAINS[grain]
  const rows = await db
    .selectFrom('rollups')
    .select([bucket.as('start'), ...dimensions])
    .select(({ fn }) =>
      (['requests', 'failures', 'prompt_tokens', 'completion_tokens', 'cost'] as const).map(name =>
        fn.sum<number>(name).as(name),
      ),
    )
    .where('bucket', '>=', start)
    .where('bucket', '<', start + unit)
    .groupBy([bucket, ...dimensions])
    .execute()
  return rows.map(row => ({ ...ZEROS, kind: kindOf({ grain, step }), ...row })) as RollupSumRow[]
}

/**
 * Folds one unit. A late request that is applied concurrently deletes the unit's mark. So the sums are saved only if the
 * mark that was set before reading is still there.
 */
async function foldUnit(db: Db, engine: Engine, { unit, sums }: FoldUnit, start: number) {
  const run = randomUUID()
  await db
    .insertInto('rollup_folds')
    .values({ unit, start, run })
    .onConflict(conflict => conflict.columns(['unit', 'start']).doUpdateSet({ run }))
    .execute()
  // Transactions that began before the mark was set cannot see it, so wait until they have ended.
  if (engine === 'postgres') await transact(db, trx => sql`lock table rollups in share mode`.execute(trx))
  const rows: RollupSumRow[] = []
  for (const { grain, step } of sums) rows.push(...(await readSums(db, { unit, start, grain, step })))
  await transact(db, async trx => {
    const { numUpdatedRows } = await trx
      .updateTable('rollup_folds')
      .set({ run: DONE })
      .where('unit', '=', unit)
      .where('start', '=', start)
      .where('run', '=', run)
      .executeTakeFirst()
    if (Number(numUpdatedRows) === 0) return
    for (const each of sums)
      await trx
        .deleteFrom('rollup_sums')
        .where('kind', '=', kindOf(each))
        .where('start', '>=', start)
        .where('start', '<', start + unit)
        .execute()
    for (const some of chunksOf(rows, ROWS_AT_ONCE))
      await trx.insertInto('rollup_sums').values(some).execute()
  })
}

type FoldingDeps = {
  readonly db: Db
  readonly engine: Engine
  now(): number
  /** Whether this node runs the jobs of the fleet. */
  isLeader(): boolean
  /** Waits between two units, so that the store stays available for other work. */
  pause(): Promise<void>
  onFailure(error: Error): void
}

/** Folds past units one at a time, starting with the oldest missing one. */
export function createFolding({ db, engine, now, isLeader, pause, onFailure }: FoldingDeps) {
  let isClosed = false
  let running: Promise<void> | undefined

  async function missing({ unit }: FoldUnit): Promise<number[]> {
    const oldest = await db
      .selectFrom('rollups')
      .select('bucket')
      .orderBy('bucket')
      .limit(1)
      .executeTakeFirst()
    if (!oldest) return []
    const from = oldest.bucket - (oldest.bucket % unit)
    const over = now() - LATE_REQUESTS_S
    const to = over - (over % unit)
    // A count first: usually no unit is missing, and there are thousands of units in a year.
    const { count } = await db
      .selectFrom('rollup_folds')
      .select(sql<number>`count(*)`.as('count'))
      .where('unit', '=', unit)
      .where('start', '>=', from)
      .where('start', '<', to)
      .where('run', '=', DONE)
      .executeTakeFirstOrThrow()
    if (Number(count) >= (to - from) / unit) return []
    const folded = await foldedUnits(db, unit, from, to)
    const starts: number[] = []
    for (let start = from; start < to; start += unit) if (!folded.has(start)) starts.push(start)
    return starts
  }

  async function foldAll(): Promise<void> {
    for (const each of [...UNITS].reverse())
      for (const start of await missing(each)) {
        if (isClosed || !isLeader()) return
        await foldUnit(db, engine, each, start)
        await pause()
      }
  }

  /** Runs never overlap. The first run over years of hours may take longer than the interval. */
  function fold(): Promise<void> {
    running ??= foldAll().finally(() => {
      running = undefined
    })
    return running
  }

  const run = () => {
    if (isLeader()) fold().catch(onFailure)
  }
  const first = setTimeout(run, FIRST_AFTER_MS)
  const timer = setInterval(run, EVERY_MS)
  first.unref()
  timer.unref()

  return {
    fold,
    /** Ends after the current unit. */
    async close(): Promise<void> {
      isClosed = true
      clearTimeout(first)
      clearInterval(timer)
      await running?.catch(() => {})
    },
  }
}
