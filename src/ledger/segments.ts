import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { crc32 } from 'node:zlib'

/** The part of the SQLite API that a journal needs. */
export type JournalDatabase = {
  exec(sql: string): void
  prepare(sql: string): {
    run(...values: (string | number)[]): unknown
    all(...values: (string | number)[]): unknown[]
    iterate(...values: (string | number)[]): Iterable<unknown>
  }
  close(): void
}

export type OpenJournal = (path: string) => JournalDatabase

/** A journal is damaged, so none of its records may be applied. The message names the file. */
export class JournalDamageError extends Error {
  constructor(damage: string) {
    super(`a journal is damaged: ${damage}`)
    this.name = 'JournalDamageError'
  }
}

/** A file of a journal, named after the sequence number of its first record. */
type JournalSegment = { readonly path: string; readonly first: number }
export type StoredRecord = { readonly lsn: number; readonly body: string }

/** A range of records that are missing, and the place where they should be. */
export type Gap = { readonly from: number; readonly to: number; readonly where: string }

const NAME = /^journal-(\d{16})\.db$/

export const segmentPath = (dir: string, first: number) =>
  join(dir, `journal-${String(first).padStart(16, '0')}.db`)

/** Segments of a directory, oldest first. */
export function segmentsOf(
  dir: string,
  list: (dir: string) => readonly string[] = readdirSync,
): JournalSegment[] {
  return list(dir)
    .flatMap(name => {
      const first = NAME.exec(name)?.[1]
      return first === undefined ? [] : [{ path: join(dir, name), first: Number(first) }]
    })
    .sort((a, b) => a.first - b.first)
}

/** `user_version` of a segment that has a successor. If the successor does not exist, it was deleted. */
const HAS_SUCCESSOR = 1

export const SEGMENT_SCHEMA =
  'CREATE TABLE IF NOT EXISTS records (lsn INTEGER PRIMARY KEY, body TEXT NOT NULL, sum INTEGER NOT NULL) STRICT'
// A failed commit may have reached the disk. IGNORE makes its retry idempotent.
export const INSERT_RECORD = 'INSERT OR IGNORE INTO records (lsn, body, sum) VALUES (?, ?, ?)'

/** Records that were committed together: the sequence number of the first, and the JSON of each on its own line. */
export type Row = { readonly lsn: number; readonly body: string; readonly sum: number }

/** The checksum covers the sequence number and the records. */
export const sumOf = (lsn: number, body: string) => crc32(body, lsn % 2 ** 32)

/** The JSON of a record contains no line break. */
const RECORD_SEPARATOR = '\n'

export function rowOf(lsn: number, bodies: readonly string[]): Row {
  const body = bodies.join(RECORD_SEPARATOR)
  return { lsn, body, sum: sumOf(lsn, body) }
}

export const markSuccessor = (db: JournalDatabase) => db.exec(`PRAGMA user_version = ${HAS_SUCCESSOR}`)

export function hasSuccessor(db: JournalDatabase): boolean {
  const [row] = db.prepare('PRAGMA user_version').all() as { user_version: number }[]
  return row?.user_version === HAS_SUCCESSOR
}

/** False for a file that was created and not yet written to. */
export const hasRecordTable = (db: JournalDatabase) =>
  db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'records'").all().length > 0

const LAST_LSN = `SELECT lsn + length(body) - length(replace(body, '${RECORD_SEPARATOR}', '')) AS last
  FROM records ORDER BY lsn DESC LIMIT 1`

export function lastLsnOf(db: JournalDatabase): number | undefined {
  const [row] = db.prepare(LAST_LSN).all() as { last: number | null }[]
  return row?.last ?? undefined
}

/** Adds the file's name to an error of SQLite. */
function withFileName<T>(path: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof JournalDamageError) throw error
    throw new JournalDamageError(`${path} cannot be read (${(error as Error).message})`)
  }
}

/** Reads from a segment on a connection of its own. */
export function inspectSegment<T>(path: string, open: OpenJournal, inspect: (db: JournalDatabase) => T): T {
  return withFileName(path, () => {
    const db = open(path)
    try {
      return inspect(db)
    } finally {
      db.close()
    }
  })
}

/** Starts with the row that contains the record after `after`; a row may contain several records. */
const READ_ROWS = `SELECT lsn, body, sum FROM records
  WHERE lsn >= coalesce((SELECT max(lsn) FROM records WHERE lsn <= ?1 + 1), 0) ORDER BY lsn`

function* recordsOf(db: JournalDatabase, path: string, after: number): Generator<StoredRecord> {
  const rows = withFileName(path, () => db.prepare(READ_ROWS).iterate(after)[Symbol.iterator]())
  for (;;) {
    const next = withFileName(path, () => rows.next())
    if (next.done) return
    const row = next.value as Row
    // A torn page may be read as a row without values.
    if (typeof row.body !== 'string' || row.sum !== sumOf(row.lsn, row.body))
      throw new JournalDamageError(`${path}: the checksum of record ${row.lsn} does not match`)
    for (const [index, body] of row.body.split(RECORD_SEPARATOR).entries()) {
      const lsn = row.lsn + index
      if (lsn > after) yield { lsn, body }
    }
  }
}

type SegmentReading = {
  readonly segments: readonly JournalSegment[]
  readonly after: number
  open: OpenJournal
  /** Called for every gap in the sequence numbers. Reading continues after it. */
  onGap(gap: Gap): void
}

const whereBetween = (before: JournalSegment | undefined, { path }: JournalSegment) =>
  before ? `between ${before.path} and ${basename(path)}` : `before ${path}`

/** Every record after a sequence number, in order, each with a verified checksum. */
export function* readSegments({ segments, after, open, onGap }: SegmentReading): Generator<StoredRecord> {
  let last = after
  let before: JournalSegment | undefined
  for (const [index, segment] of segments.entries()) {
    const following = segments[index + 1]?.first
    if (following !== undefined && following <= after + 1) continue
    const { path, first } = segment
    if (first > last + 1) onGap({ from: last + 1, to: first - 1, where: whereBetween(before, segment) })
    last = Math.max(last, first - 1)
    const db = withFileName(path, () => open(path))
    try {
      // The writer has just created the newest file and not yet its table.
      if (following === undefined && !withFileName(path, () => hasRecordTable(db))) return
      for (const record of recordsOf(db, path, last)) {
        if (record.lsn > last + 1) onGap({ from: last + 1, to: record.lsn - 1, where: `in ${path}` })
        last = record.lsn
        yield record
      }
    } finally {
      db.close()
    }
    before = segment
  }
}

export const describeGap = ({ from, to, where }: Gap) =>
  from === to ? `record ${from} is missing ${where}` : `the records ${from} to ${to} are missing ${where}`

/** An error message if the last segment is marked as having a successor, which is missing then. */
export function missingSuccessor(dir: string, open: OpenJournal): string | undefined {
  const newest = segmentsOf(dir).at(-1)
  if (!newest) return undefined
  if (!inspectSegment(newest.path, open, hasSuccessor)) return undefined
  // The successor may have been created after the directory was listed.
  if (segmentsOf(dir).at(-1)?.path !== newest.path) return undefined
  return `the file that followed ${newest.path} is missing`
}
