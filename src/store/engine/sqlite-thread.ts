import { parentPort } from 'node:worker_threads'
import { openDatabase, type SQLInputValue, type StatementSync } from '../../host/sqlite-open.ts'
import { applySettled, type BatchMessage } from '../books/apply-sqlite.ts'

/** The connections of a thread to the SQLite file. `node:sqlite` is synchronous and would block the main thread. */
export type ThreadOptions = { path: string; readonly: boolean; fullSync: boolean }
/** A single statement, or a whole batch: a round trip to the thread costs more than a statement. */
export type ThreadTask =
  | { readonly sql: string; readonly parameters: readonly unknown[]; readonly isRead: boolean }
  | { readonly batch: BatchMessage }
export type TaskResult = { readonly rows: unknown[]; readonly changes: number }
export type ThreadRequest = { readonly id: number; readonly task: ThreadTask }
export type ThreadResponse =
  | { readonly id: number; readonly result: TaskResult }
  | { readonly id: number; readonly error: { message: string; errcode: number | undefined } }
  | 'closed'
/** A thread serves one store after the other, each with `open`, any number of requests, and `close`. */
export type ThreadMessage = { readonly open: ThreadOptions } | ThreadRequest | 'close'

const BUSY_TIMEOUT_MS = 10_000
const MAX_STATEMENTS = 500
/** Twice SQLite's default, which is too small for the pages of requests with many different tokens. */
const CACHE_KIB = 4_000

function connect({ path, fullSync }: ThreadOptions, readOnly: boolean) {
  const db = openDatabase(path, { readOnly, timeoutMs: BUSY_TIMEOUT_MS })
  if (!readOnly) db.exec('PRAGMA journal_mode = WAL')
  db.exec(
    `PRAGMA foreign_keys = ON; PRAGMA synchronous = ${fullSync ? 'FULL' : 'NORMAL'}; PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -${CACHE_KIB}`,
  )
  const statements = new Map<string, StatementSync>()
  return {
    prepare(sql: string): StatementSync {
      const cached = statements.get(sql)
      if (cached) return cached
      const statement = db.prepare(sql)
      if (statements.size >= MAX_STATEMENTS) statements.clear()
      statements.set(sql, statement)
      return statement
    },
    close: () => db.close(),
  }
}

type Connection = ReturnType<typeof connect>

let options: ThreadOptions | undefined
let writing: Connection | undefined
/** The writer reads on another connection than it writes: in a transaction, the first would see what is not committed. */
let reading: Connection | undefined

function open(opened: ThreadOptions): void {
  options = opened
  writing = opened.readonly ? undefined : connect(opened, false)
}

/** The writer's connection is the last one, so that SQLite removes the write-ahead log. */
function close(): void {
  reading?.close()
  writing?.close()
  options = undefined
  reading = undefined
  writing = undefined
}

function connectionFor(isRead: boolean): Connection {
  if (writing && !isRead) return writing
  // A connection that is opened after `close` would serve the next store.
  if (options === undefined) throw new Error('the store is closed')
  reading ??= connect(options, true)
  return reading
}

function run(task: ThreadTask): TaskResult {
  if ('batch' in task) {
    applySettled(connectionFor(false).prepare, task.batch)
    return { rows: [], changes: 0 }
  }
  const statement = connectionFor(task.isRead).prepare(task.sql)
  const values = task.parameters as SQLInputValue[]
  // A statement with columns returns rows; this includes RETURNING.
  if (statement.columns().length > 0) return { rows: statement.all(...values), changes: 0 }
  return { rows: [], changes: Number(statement.run(...values).changes) }
}

function respond({ id, task }: ThreadRequest): ThreadResponse {
  try {
    return { id, result: run(task) }
  } catch (error) {
    const { message, errcode } = error as Error & { errcode?: number }
    return { id, error: { message, errcode } }
  }
}

parentPort?.on('message', (message: ThreadMessage) => {
  if (message === 'close') {
    close()
    parentPort?.postMessage('closed' satisfies ThreadResponse)
  } else if ('open' in message) open(message.open)
  else parentPort?.postMessage(respond(message))
})
