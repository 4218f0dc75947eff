import { parentPort, workerData } from 'node:worker_threads'
import { openDatabase, type SQLInputValue, type StatementSync } from '../../host/sqlite-open.ts'
import { APPLY_SETTLED, applySettled } from '../books/apply-sqlite.ts'

/**
 * A thread that owns one connection to the store's SQLite file. `node:sqlite` blocks its thread, so it never runs
 * on the main one.
 */
export type ThreadOptions = { path: string; readonly: boolean; fullSync: boolean }
export type Statement = { id: number; sql: string; parameters: readonly unknown[] }
export type StatementOutcome =
  | { id: number; rows: unknown[]; changes: number }
  | { id: number; error: { message: string; errcode: number | undefined } }

const BUSY_TIMEOUT_MS = 10_000
const MAX_STATEMENTS = 500
/** Twice what SQLite takes by itself: requests of many tokens touch more pages than that, and it would read them again. */
const CACHE_KIB = 4_000

const { path, readonly, fullSync } = workerData as ThreadOptions
const db = openDatabase(path, { readOnly: readonly, timeoutMs: BUSY_TIMEOUT_MS })
if (!readonly) db.exec('PRAGMA journal_mode = WAL')
db.exec(
  `PRAGMA foreign_keys = ON; PRAGMA synchronous = ${fullSync ? 'FULL' : 'NORMAL'}; PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -${CACHE_KIB}`,
)

const statements = new Map<string, StatementSync>()

function prepare(sql: string): StatementSync {
  const known = statements.get(sql)
  if (known) return known
  const statement = db.prepare(sql)
  if (statements.size >= MAX_STATEMENTS) statements.clear()
  statements.set(sql, statement)
  return statement
}

/** What runs here as a whole, called like a statement. */
const PROCEDURES: Readonly<Record<string, (parameters: readonly unknown[]) => void>> = {
  [APPLY_SETTLED]: parameters => applySettled(prepare, parameters),
}

function run({ id, sql, parameters }: Statement): StatementOutcome {
  try {
    const procedure = PROCEDURES[sql]
    if (procedure) {
      procedure(parameters)
      return { id, rows: [], changes: 0 }
    }
    const statement = prepare(sql)
    const values = parameters as SQLInputValue[]
    // A statement with columns answers rows, RETURNING included.
    if (statement.columns().length > 0) return { id, rows: statement.all(...values), changes: 0 }
    return { id, rows: [], changes: Number(statement.run(...values).changes) }
  } catch (error) {
    const { message, errcode } = error as Error & { errcode?: number }
    return { id, error: { message, errcode } }
  }
}

parentPort?.on('message', (message: Statement | 'close') => {
  if (message === 'close') {
    db.close()
    parentPort?.close()
    return
  }
  parentPort?.postMessage(run(message))
})
