import { existsSync } from 'node:fs'
import { openDatabase, type SQLInputValue } from '../../../host/sqlite-open.ts'
import type { SourceRow } from '../values.ts'
import { pageStatement, type SourceDatabase, SourceError } from './database.ts'

const BUSY_MS = 5_000

const quote = (name: string) => `"${name.replaceAll('"', '""')}"`
const DIALECT = { quote, bytes: (column: string) => `octet_length(${column})`, parameter: '?' }

/** Opens an SQLite file of another gateway. The file may be hostile: its views and functions are not run. */
export function openSqliteSource(path: string): SourceDatabase {
  const unusable = (why: string) => new SourceError(`${path} cannot be read: ${why}`)
  if (!existsSync(path))
    throw unusable('the gateway finds no such file. It needs the absolute path of a file that it may read')
  let file: ReturnType<typeof openDatabase>
  try {
    file = openDatabase(path, { readOnly: true, timeoutMs: BUSY_MS })
    file.exec('PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON')
    file.prepare('SELECT count(*) FROM sqlite_master').get()
  } catch (error) {
    throw unusable((error as Error).message)
  }
  const run = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw unusable((error as Error).message)
    }
  }
  return {
    engine: 'sqlite',
    async columnsOf(table) {
      return run(() => {
        const entry = file
          .prepare("SELECT type, sql FROM sqlite_master WHERE name = ? AND type IN ('table', 'view')")
          .get(table)
        if (!entry) return new Set<string>()
        // A view or a virtual table would run statements of the author of the file, perhaps without an end.
        if (entry.type !== 'table' || /^\s*create\s+virtual/i.test(String(entry.sql)))
          throw new Error(`"${table}" is not a plain table`)
        const columns = file.prepare('SELECT name, hidden FROM pragma_table_xinfo(?)').all(table)
        // Generated columns (2 and 3) compute expressions of the file.
        return new Set(columns.filter(({ hidden }) => Number(hidden) === 0).map(({ name }) => String(name)))
      })
    },
    async read(range) {
      return run(() => {
        const statement = file.prepare(pageStatement(DIALECT, range))
        statement.setReadBigInts(true)
        const after = range.after === undefined ? [] : [range.after as SQLInputValue]
        return statement.all(...after) as SourceRow[]
      })
    },
    async close() {
      file.close()
    },
  }
}
