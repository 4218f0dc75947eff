import { readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { JournalRecord, Numbered } from './record.ts'

/** As much of SQLite as a journal needs; whoever builds the ledger hands it in. */
export type JournalDatabase = {
  exec(sql: string): void
  prepare(sql: string): {
    run(...values: (string | number)[]): unknown
    all(...values: (string | number)[]): unknown[]
  }
  close(): void
}

export type JournalDeps = {
  readonly dir: string
  readonly fullSync: boolean
  open(path: string): JournalDatabase
  nowMs(): number
}

/** The disk refused a record: nothing that depends on it may happen. */
export class JournalError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'JournalError'
  }
}

const SEGMENT_RECORDS = 200_000
const KEEP_MS = 24 * 3600 * 1000
const KEEP_BYTES = 1024 * 1024 * 1024
const NAME = /^journal-(\d{16})\.db$/

type Batch = { readonly records: Numbered[]; readonly done: PromiseWithResolvers<void> }

/** Segments of a directory, oldest first, each named by the first record it holds. */
function segmentsOf(dir: string): { path: string; first: number }[] {
  return readdirSync(dir)
    .flatMap(name => {
      const first = NAME.exec(name)?.[1]
      return first === undefined ? [] : [{ path: join(dir, name), first: Number(first) }]
    })
    .sort((a, b) => a.first - b.first)
}

/**
 * The node's own record of everything that touches money: all records of an event-loop turn in one commit. It
 * survives a killed process as it is, and a power cut with `fullSync`.
 */
export function createJournal({ dir, fullSync, open, nowMs }: JournalDeps) {
  let segment: { db: JournalDatabase; insert: ReturnType<JournalDatabase['prepare']>; first: number }
  let nextLsn = 1
  let batch: Batch | undefined
  let appliedLsn = 0

  function openSegment(first: number): typeof segment {
    const db = open(join(dir, `journal-${String(first).padStart(16, '0')}.db`))
    db.exec(
      `PRAGMA journal_mode = WAL; PRAGMA synchronous = ${fullSync ? 'FULL' : 'NORMAL'};
       CREATE TABLE IF NOT EXISTS records (lsn INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT`,
    )
    return { db, insert: db.prepare('INSERT INTO records (lsn, body) VALUES (?, ?)'), first }
  }

  /** Every record after `lsn`, from all segments, for recovery. */
  function* readAfter(lsn: number): Generator<Numbered> {
    const segments = segmentsOf(dir)
    for (const [index, { path, first }] of segments.entries()) {
      const following = segments[index + 1]?.first
      if (following !== undefined && following <= lsn + 1) continue
      const db = first === segment.first ? segment.db : open(path)
      const rows = db.prepare('SELECT lsn, body FROM records WHERE lsn > ? ORDER BY lsn').all(lsn)
      for (const row of rows as { lsn: number; body: string }[])
        yield { lsn: row.lsn, record: JSON.parse(row.body) }
      if (db !== segment.db) db.close()
    }
  }

  /** Opens the newest segment and finds where to go on. A gap in the numbers means a lost file: refuse to guess. */
  function start(): void {
    const segments = segmentsOf(dir)
    const newest = segments.at(-1)
    segment = openSegment(newest?.first ?? 1)
    const [row] = segment.db.prepare('SELECT max(lsn) AS last FROM records').all() as {
      last: number | null
    }[]
    nextLsn = (row?.last ?? segment.first - 1) + 1
  }

  function flush(): void {
    const flushing = batch
    batch = undefined
    if (!flushing) return
    try {
      const { db, insert } = segment
      db.exec('BEGIN')
      for (const { lsn, record } of flushing.records) insert.run(lsn, JSON.stringify(record))
      db.exec('COMMIT')
      flushing.done.resolve()
    } catch (error) {
      try {
        segment.db.exec('ROLLBACK')
      } catch {
        // There was no transaction left to undo; the records are gone either way, and so is the promise.
      }
      flushing.done.reject(new JournalError(`the journal cannot be written: ${(error as Error).message}`))
    }
    if (nextLsn - segment.first >= SEGMENT_RECORDS) rotate()
  }

  function rotate(): void {
    segment.db.close()
    segment = openSegment(nextLsn)
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
      const isApplied = following !== undefined && following - 1 <= appliedLsn && first !== segment.first
      if (isApplied && (nowMs() - stat.mtimeMs > KEEP_MS || bytes > KEEP_BYTES))
        for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true })
    }
  }

  start()

  return {
    readAfter,
    /** The record's number at once; the promise says when it is safe to act on it. */
    append(record: JournalRecord): { lsn: number; committed: Promise<void> } {
      if (!batch) {
        batch = { records: [], done: Promise.withResolvers() }
        // A batch that nobody waits for must not end the process; whoever acts on it awaits `committed`.
        batch.done.promise.catch(() => {})
        setImmediate(flush)
      }
      const lsn = nextLsn++
      batch.records.push({ lsn, record })
      return { lsn, committed: batch.done.promise }
    },
    /** Commits what is waiting now, for whoever cannot wait for the end of the turn. */
    flush,
    markApplied(lsn: number): void {
      appliedLsn = lsn
    },
    lastLsn: () => nextLsn - 1,
    close(): void {
      flush()
      segment.db.close()
    },
  }
}

export type Journal = ReturnType<typeof createJournal>
