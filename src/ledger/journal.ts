import { randomBytes } from 'node:crypto'
import { rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { UnreachableError } from '../domain/errors.ts'
import type { JournalRecord, Numbered } from './record.ts'
import {
  describeGap,
  type Gap,
  hasRecordTable,
  INSERT_RECORD,
  inspectSegment,
  isFollowed,
  JournalDamageError,
  type JournalDatabase,
  lastLsnOf,
  markFollowed,
  type OpenJournal,
  type Row,
  readSegments,
  rowOf,
  SEGMENT_SCHEMA,
  segmentPath,
  segmentsOf,
} from './segments.ts'

export type { JournalDatabase } from './segments.ts'

type JournalDeps = {
  readonly dir: string
  readonly fullSync: boolean
  readonly open: OpenJournal
  /** The number of records after which a new file is started. */
  readonly segmentRecords?: number
  nowMs(): number
  /** The disk refused a commit, and the reserve was deleted to make room for it. */
  onReserveReleased(error: Error): void
}

const SEGMENT_RECORDS = 200_000
const KEEP_MS = 24 * 3600 * 1000
const KEEP_BYTES = 1024 * 1024 * 1024
/** Released when the disk is full: running requests are settled all the same, and new ones are refused (ADR 16). */
const RESERVE_BYTES = 4 * 1024 * 1024
const RESERVE_RETRY_MS = 1_000
/** The records of one turn of the event loop; they are serialized once, when they are appended. */
type Batch = { readonly first: number; readonly bodies: string[]; readonly done: PromiseWithResolvers<void> }

/**
 * The node's log of everything that concerns money. All records of one turn of the event loop are one commit. It survives
 * a killed process, and with `fullSync` a power cut.
 */
export function createJournal(deps: JournalDeps) {
  const { dir, fullSync, open, segmentRecords = SEGMENT_RECORDS, nowMs, onReserveReleased: onShort } = deps
  let segment: { db: JournalDatabase; insert: ReturnType<JournalDatabase['prepare']>; first: number }
  let nextLsn = 1
  let batch: Batch | undefined
  /** Rows that the disk refused. The next commit includes them, so that no number is ever missing. */
  let unwritten: Row[] = []
  /** Records up to this number are not needed for recovery. */
  let neededAfter = 0
  let isEmpty = false
  const reserve = join(dir, 'reserve')
  let hasReserve = false
  let reserveTriedMs = Number.NEGATIVE_INFINITY

  /** Creates the reserve if it is missing. False while the disk has no room for it. */
  function ensureReserve(): boolean {
    if (hasReserve || nowMs() - reserveTriedMs < RESERVE_RETRY_MS) return hasReserve
    reserveTriedMs = nowMs()
    try {
      const size = statSync(reserve, { throwIfNoEntry: false })?.size
      // Random bytes, because a file system that compresses would store zeros in less space.
      if (size !== RESERVE_BYTES) writeFileSync(reserve, randomBytes(RESERVE_BYTES), { mode: 0o600 })
      hasReserve = true
    } catch {
      // The disk is still full; an incomplete reserve file would only take room from the journal.
      rmSync(reserve, { force: true })
    }
    return hasReserve
  }

  function openSegment(first: number): typeof segment {
    const db = open(segmentPath(dir, first))
    db.exec(
      `PRAGMA journal_mode = WAL; PRAGMA synchronous = ${fullSync ? 'FULL' : 'NORMAL'}; ${SEGMENT_SCHEMA}`,
    )
    return { db, insert: db.prepare(INSERT_RECORD), first }
  }

  /** Opens the newest segment and determines the next record's number. */
  function start(): void {
    const [newest, older] = segmentsOf(dir).reverse()
    const path = segmentPath(dir, newest?.first ?? 1)
    const isWritten = newest !== undefined && inspectSegment(path, open, hasRecordTable)
    if (isWritten && inspectSegment(path, open, isFollowed))
      throw new JournalDamageError(`the file that followed ${path} is missing`)
    // A segment is marked as followed once the next one has its table. A marked segment with an empty successor is damage.
    if (newest && !isWritten && older && inspectSegment(older.path, open, isFollowed))
      throw new JournalDamageError(`${path} is empty, but it had records`)
    isEmpty = !isWritten && !older
    segment = openSegment(newest?.first ?? 1)
    nextLsn = (lastLsnOf(segment.db) ?? segment.first - 1) + 1
  }

  /** Every record after a number, from all segments. Gaps are ignored here: `resume` has checked them. */
  function* readAfter(after: number): Generator<Numbered> {
    for (const { lsn, body } of readSegments({ segments: segmentsOf(dir), after, open, onGap: () => {} }))
      yield { lsn, record: JSON.parse(body) }
  }

  /**
   * Checks every record that the store may still need, before any of them is applied. Throws if a record is missing that
   * the store does not have. Returns descriptions of missing records that the store does have.
   */
  function resume({ after, appliedLsn }: { after: number; appliedLsn: number }): string[] {
    if (isEmpty && appliedLsn > 0)
      throw new JournalDamageError(`${dir} has no records, but the store has applied ${appliedLsn} of them`)
    const lost: Gap[] = []
    const segments = segmentsOf(dir)
    for (const _checked of readSegments({ segments, after, open, onGap: gap => lost.push(gap) }));
    if (nextLsn <= appliedLsn) lost.push({ from: nextLsn, to: appliedLsn, where: `at the end of ${dir}` })
    const fatal = lost.find(({ to }) => to > appliedLsn)
    if (fatal)
      throw new JournalDamageError(
        `${describeGap(fatal)}; nothing was applied. Put the file back or restore a backup (docs/operating/backup.md)`,
      )
    nextLsn = Math.max(nextLsn, appliedLsn + 1)
    return lost.map(describeGap)
  }

  function flush(): void {
    const flushing = batch
    batch = undefined
    const rows = flushing ? [...unwritten, rowOf(flushing.first, flushing.bodies)] : unwritten
    if (rows.length === 0) return
    try {
      commitWithReserve(rows)
      unwritten = []
      flushing?.done.resolve()
    } catch (error) {
      unwritten = rows
      const why = new Error(`the journal cannot be written: ${(error as Error).message}`, { cause: error })
      flushing?.done.reject(new UnreachableError(why))
      return
    }
    if (nextLsn - segment.first >= segmentRecords) rotate()
  }

  function commitWithReserve(rows: readonly Row[]): void {
    try {
      commit(rows)
    } catch (error) {
      if (!hasReserve) throw error
      rmSync(reserve, { force: true })
      hasReserve = false
      onShort(error as Error)
      commit(rows)
    }
  }

  function commit(rows: readonly Row[]): void {
    const { db, insert } = segment
    try {
      // A single row is a transaction by itself.
      if (rows.length > 1) db.exec('BEGIN')
      for (const { lsn, body, sum } of rows) insert.run(lsn, body, sum)
      if (rows.length > 1) db.exec('COMMIT')
    } catch (error) {
      try {
        db.exec('ROLLBACK')
      } catch {
        // SQLite has rolled back already.
      }
      throw error
    }
  }

  function rotate(): void {
    const full = segment
    try {
      segment = openSegment(nextLsn)
    } catch {
      // The disk is full or failing: the current file grows on, and the next failing commit reports the reason.
      rmSync(segmentPath(dir, nextLsn), { force: true })
      return
    }
    markFollowed(full.db)
    full.db.close()
    sweep()
  }

  /** Keeps applied segments for a day and at most 1 GiB, so that a store restored from a backup can catch up. */
  function sweep(): void {
    const segments = segmentsOf(dir)
    let bytes = 0
    for (const [index, { path, first }] of [...segments.entries()].reverse()) {
      const stat = statSync(path)
      bytes += stat.size
      const following = segments[index + 1]?.first
      const isApplied = following !== undefined && following - 1 <= neededAfter && first !== segment.first
      if (isApplied && (nowMs() - stat.mtimeMs > KEEP_MS || bytes > KEEP_BYTES))
        for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true })
    }
  }

  start()
  ensureReserve()

  return {
    readAfter,
    /** Whether new requests may be accepted: their settlement can still be written. */
    hasRoom: ensureReserve,
    resume,
    /** Returns the record's number and JSON at once. It is safe to act on the record when `committed` resolves. */
    append(record: JournalRecord): { lsn: number; body: string; committed: Promise<void> } {
      if (!batch) {
        batch = { first: nextLsn, bodies: [], done: Promise.withResolvers() }
        // An unhandled rejection must not end the process; callers that act on a record await `committed`.
        batch.done.promise.catch(() => {})
        setImmediate(flush)
      }
      const lsn = nextLsn++
      const body = JSON.stringify(record)
      batch.bodies.push(body)
      return { lsn, body, committed: batch.done.promise }
    },
    /** Commits the waiting records now, before the end of the turn. */
    flush,
    /** The store has applied all records up to this one, and every running request started after it. */
    markNeededAfter(lsn: number): void {
      neededAfter = lsn
    },
    /** The number of records that wait because the disk refused one. */
    unwritten: () => (unwritten[0] ? nextLsn - unwritten[0].lsn : 0),
    close(): void {
      flush()
      segment.db.close()
    },
  }
}

export type Journal = ReturnType<typeof createJournal>
