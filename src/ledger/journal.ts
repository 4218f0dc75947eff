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
  isFollowed,
  JournalDamageError,
  type JournalDatabase,
  lastLsnOf,
  lookInto,
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

export type JournalDeps = {
  readonly dir: string
  readonly fullSync: boolean
  readonly open: OpenJournal
  /** How many records a file holds before the next is begun. */
  readonly segmentRecords?: number
  nowMs(): number
  /** The disk refused a commit, and the reserve was given up for it. */
  onShort(error: Error): void
}

const SEGMENT_RECORDS = 200_000
const KEEP_MS = 24 * 3600 * 1000
const KEEP_BYTES = 1024 * 1024 * 1024
/** Kept free for a disk that is full: what runs then is settled all the same, and nothing new is begun. */
const RESERVE_BYTES = 4 * 1024 * 1024
const RESTOCK_EVERY_MS = 1_000
/** The records of a turn, by the number of the first: their texts are made once, when they are appended. */
type Batch = { readonly first: number; readonly bodies: string[]; readonly done: PromiseWithResolvers<void> }

/**
 * The node's own record of everything that touches money: all records of an event-loop turn in one commit. It
 * survives a killed process as it is, and a power cut with `fullSync`.
 */
export function createJournal(deps: JournalDeps) {
  const { dir, fullSync, open, segmentRecords = SEGMENT_RECORDS, nowMs, onShort } = deps
  let segment: { db: JournalDatabase; insert: ReturnType<JournalDatabase['prepare']>; first: number }
  let nextLsn = 1
  let batch: Batch | undefined
  /** What the disk refused: the next commit takes it along, so that no number is ever left out. */
  let unwritten: Row[] = []
  /** Up to here nobody needs the records to bring the store up. */
  let neededAfter = 0
  let isBlank = false
  const reserve = join(dir, 'reserve')
  let hasReserve = false
  let restockedMs = Number.NEGATIVE_INFINITY

  /** Whether there is a reserve, or room for it again. */
  function restock(): boolean {
    if (hasReserve || nowMs() - restockedMs < RESTOCK_EVERY_MS) return hasReserve
    restockedMs = nowMs()
    try {
      const size = statSync(reserve, { throwIfNoEntry: false })?.size
      // Bytes of chance, of which no file system makes less.
      if (size !== RESERVE_BYTES) writeFileSync(reserve, randomBytes(RESERVE_BYTES), { mode: 0o600 })
      hasReserve = true
    } catch {
      // No room yet: half a reserve would only be in the way.
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

  /** Opens the newest segment and finds where to go on. */
  function start(): void {
    const [newest, older] = segmentsOf(dir).reverse()
    const path = segmentPath(dir, newest?.first ?? 1)
    const isWritten = newest !== undefined && lookInto(path, open, hasRecordTable)
    if (isWritten && lookInto(path, open, isFollowed))
      throw new JournalDamageError(`the file that followed ${path} is missing`)
    // A segment is marked as followed once the next one is whole: only before that may the next be found unwritten.
    if (newest && !isWritten && older && lookInto(older.path, open, isFollowed))
      throw new JournalDamageError(`${path} is empty, and it was not`)
    isBlank = !isWritten && !older
    segment = openSegment(newest?.first ?? 1)
    nextLsn = (lastLsnOf(segment.db) ?? segment.first - 1) + 1
  }

  /** Every record after a number, from all segments; `resume` has judged what is missing. */
  function* readAfter(after: number): Generator<Numbered> {
    for (const { lsn, body } of readSegments({ segments: segmentsOf(dir), after, open, onGap: () => {} }))
      yield { lsn, record: JSON.parse(body) }
  }

  /**
   * Proves every record that the store may still need, before one of them is applied, and goes on behind what it
   * has. What is missing and not in the store ends this; what is missing and in the store is told.
   */
  function resume({ after, appliedLsn }: { after: number; appliedLsn: number }): string[] {
    if (isBlank && appliedLsn > 0)
      throw new JournalDamageError(`${dir} holds no records, and ${appliedLsn} of them are in the books`)
    const lost: Gap[] = []
    const segments = segmentsOf(dir)
    for (const _proven of readSegments({ segments, after, open, onGap: gap => lost.push(gap) }));
    if (nextLsn <= appliedLsn) lost.push({ from: nextLsn, to: appliedLsn, where: `at the end of ${dir}` })
    const fatal = lost.find(({ to }) => to > appliedLsn)
    if (fatal)
      throw new JournalDamageError(
        `${describeGap(fatal)}; nothing was applied. Bring the file back, or restore a backup (docs/operating/backup.md)`,
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
      commitSomehow(rows)
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

  function commitSomehow(rows: readonly Row[]): void {
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
      // A single row needs no more: it is a transaction by itself.
      if (rows.length > 1) db.exec('BEGIN')
      for (const { lsn, body, sum } of rows) insert.run(lsn, body, sum)
      if (rows.length > 1) db.exec('COMMIT')
    } catch (error) {
      try {
        db.exec('ROLLBACK')
      } catch {
        // There was no transaction left to undo.
      }
      throw error
    }
  }

  function rotate(): void {
    const full = segment
    try {
      segment = openSegment(nextLsn)
    } catch {
      // The disk takes no new file: what there is goes on growing, and a commit that fails will say why.
      rmSync(segmentPath(dir, nextLsn), { force: true })
      return
    }
    markFollowed(full.db)
    full.db.close()
    sweep()
  }

  /** Applied segments stay for a day, so that a store restored from a backup can be caught up; at most 1 GiB. */
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
  restock()

  return {
    readAfter,
    /** Whether something new may be begun: there is room to write how it ends. */
    hasRoom: restock,
    resume,
    /** The record's number and its text at once; the promise says when it is safe to act on it. */
    append(record: JournalRecord): { lsn: number; body: string; committed: Promise<void> } {
      if (!batch) {
        batch = { first: nextLsn, bodies: [], done: Promise.withResolvers() }
        // A batch that nobody waits for must not end the process; whoever acts on it awaits `committed`.
        batch.done.promise.catch(() => {})
        setImmediate(flush)
      }
      const lsn = nextLsn++
      const body = JSON.stringify(record)
      batch.bodies.push(body)
      return { lsn, body, committed: batch.done.promise }
    },
    /** Commits what is waiting now, for whoever cannot wait for the end of the turn. */
    flush,
    /** The store has everything up to here, and no request that runs began before. */
    markNeededAfter(lsn: number): void {
      neededAfter = lsn
    },
    /** How many records wait since the disk refused one. */
    unwritten: () => (unwritten[0] ? nextLsn - unwritten[0].lsn : 0),
    lastLsn: () => nextLsn - 1,
    close(): void {
      flush()
      segment.db.close()
    },
  }
}

export type Journal = ReturnType<typeof createJournal>
