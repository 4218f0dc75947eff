import { openDatabase } from '../host/sqlite-open.ts'
import { JournalDamageError } from './journal-damage.ts'
import type { CommitGroup } from './segment-file.ts'
import { sumOf } from './segment-file.ts'

// Journal files of versions up to 0.1 are SQLite databases. They are read, and not written (ADR 36).

const BUSY_TIMEOUT_MS = 10_000
/** `user_version` of a segment that has a successor. */
const HAS_SUCCESSOR = 1
const RECORD_SEPARATOR = '\n'

type Row = { readonly lsn: number; readonly body: string; readonly sum: number }

const HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE name = 'records'"
const READ_ROWS = 'SELECT lsn, body, sum FROM records ORDER BY lsn'
const LAST_ROW = 'SELECT lsn, body FROM records ORDER BY lsn DESC LIMIT 1'

/** Adds the file's name to an error of SQLite. */
function withFileName<T>(path: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof JournalDamageError) throw error
    throw new JournalDamageError(`${path} cannot be read (${(error as Error).message})`)
  }
}

function groupOf({ lsn, body, sum }: Row, path: string): CommitGroup {
  // A torn page may be read as a row without values.
  if (typeof body !== 'string' || sum !== sumOf(lsn, body))
    throw new JournalDamageError(`${path}: the checksum of record ${lsn} does not match`)
  return { first: lsn, bodies: body.split(RECORD_SEPARATOR) }
}

/** Reads a journal file that is a database. */
export function readSqliteSegment(path: string) {
  const named = <T>(read: () => T) => withFileName(path, read)
  const db = named(() => openDatabase(path, { readOnly: true, timeoutMs: BUSY_TIMEOUT_MS }))
  const hasRecords = named(() => db.prepare(HAS_TABLE).all().length > 0)
  return {
    hasRecords,
    hasSuccessor: () => named(() => db.prepare('PRAGMA user_version').get()?.user_version === HAS_SUCCESSOR),
    lastLsn(): number | undefined {
      const row = named(() => db.prepare(LAST_ROW).get()) as Pick<Row, 'lsn' | 'body'> | undefined
      return row && row.lsn + row.body.split(RECORD_SEPARATOR).length - 1
    },
    *groups(): Generator<CommitGroup> {
      const rows = named(() => db.prepare(READ_ROWS).iterate()[Symbol.iterator]())
      for (;;) {
        const next = named(() => rows.next())
        if (next.done) return
        yield groupOf(next.value as Row, path)
      }
    },
    close: () => db.close(),
  }
}

export function markSqliteSuccessor(path: string): void {
  const db = openDatabase(path, { readOnly: false, timeoutMs: BUSY_TIMEOUT_MS })
  try {
    db.exec(`PRAGMA user_version = ${HAS_SUCCESSOR}`)
  } finally {
    db.close()
  }
}
