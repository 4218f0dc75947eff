import { basename } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { JournalDatabase } from '../../src/ledger/journal.ts'
import type { JournalFiles } from '../../src/ledger/journal-files.ts'

/**
 * The disk of a node: what its journal has committed survives the process. Each file is an SQLite database in memory, so the
 * journal runs its own statements.
 */
export function createSimulatedDisk() {
  const databases = new Map<string, DatabaseSync>()
  /** Sizes of other files. */
  const sizes = new Map<string, number>()
  let isFull = false

  const files: JournalFiles = {
    list: () => [...databases.keys()].map(path => basename(path)),
    stat: path =>
      sizes.has(path) ? { size: sizes.get(path) ?? 0, changedMs: Number.POSITIVE_INFINITY } : undefined,
    fill(path, bytes) {
      if (isFull) throw new Error('no space left on device')
      sizes.set(path, bytes)
    },
    remove(path) {
      sizes.delete(path)
      databases.get(path)?.close()
      databases.delete(path)
    },
  }

  function open(path: string): JournalDatabase {
    const database = databases.get(path) ?? new DatabaseSync(':memory:')
    databases.set(path, database)
    return {
      exec: sql => database.exec(sql),
      prepare(sql) {
        const statement = database.prepare(sql)
        return {
          run(...values) {
            if (isFull) throw new Error('no space left on device')
            return statement.run(...values)
          },
          all: (...values) => statement.all(...values),
          iterate: (...values) => statement.iterate(...values),
        }
      },
      // The file stays.
      close: () => {},
    }
  }

  return {
    files,
    open,
    setFull(value: boolean): void {
      isFull = value
    },
    /** Deletes the last row of the journal, as a disk does that loses a write which it has confirmed. */
    loseLastCommit(): void {
      const newest = [...databases.keys()].sort().at(-1)
      if (newest)
        databases.get(newest)?.exec('delete from records where lsn = (select max(lsn) from records)')
    },
    close(): void {
      for (const database of databases.values()) database.close()
      databases.clear()
    },
  }
}

export type SimulatedDisk = ReturnType<typeof createSimulatedDisk>
