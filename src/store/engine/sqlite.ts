import { statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type Kysely,
  type QueryResult,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import { UnreachableError } from '../../domain/errors.ts'
import type { BatchMessage } from '../books/apply-sqlite.ts'
import { KeyedSqliteAdapter } from '../books/chain-key.ts'
import type { Database } from './schema.ts'
import type { TaskResult, ThreadMessage, ThreadOptions, ThreadResponse, ThreadTask } from './sqlite-thread.ts'
import { leaveThread, takeThread } from './sqlite-threads.ts'

/** An error that SQLite reported, with its extended result code. */
export class SqliteError extends Error {
  readonly errcode: number | undefined
  constructor(message: string, errcode: number | undefined) {
    super(message)
    this.name = 'SqliteError'
    this.errcode = errcode
  }
}

/** SQLite's result codes for a failure of its file, as opposed to an error in the statement. */
const FILE_FAILURES: ReadonlySet<number> = new Set([
  5, // busy: another process writes, for longer than we wait
  6, // locked
  8, // read only
  10, // the disk fails
  13, // the disk is full
  14, // the file cannot be opened
])
const DISK_FAILS = 10

const statement = (sql: string): ThreadTask => ({ sql, parameters: [], isRead: false })
const isCommit = (task: ThreadTask) => 'sql' in task && task.sql === 'COMMIT'

function errorOf(task: ThreadTask, { message, errcode }: { message: string; errcode: number | undefined }) {
  const error = new SqliteError(message, errcode)
  const primary = (errcode ?? 0) & 0xff
  if (!FILE_FAILURES.has(primary)) return error
  // A commit that failed with a disk error may have been written. Any other statement has had no effect.
  return new UnreachableError(error, { isOutcomeUnknown: isCommit(task) && primary === DISK_FAILS })
}

/** Why a thread ended: its file cannot be opened, or it has failed itself. */
function failureOf(thrown: unknown): Error {
  const { message, errcode } = thrown as Error & { errcode?: number }
  if (errcode !== undefined) return errorOf(statement(''), { message, errcode })
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}

/** The memory that is moved to the thread instead of being copied. */
const memoryOf = (task: ThreadTask) => ('batch' in task ? [task.batch.settled.buffer] : [])

const LONG_TASK_MS = 10
/** How long a thread takes to start. */
const START_MS = 30
const MAX_WAITING = 8

/** No statement takes long on a file of this size. */
const SMALL_FILE_BYTES = 16 * 2 ** 20
/** After so many batches of settled requests the file may have become larger, and there is traffic that should not wait for reads. */
const FEW_BATCHES = 12

type Waiting = {
  readonly task: ThreadTask
  resolve(result: TaskResult): void
  reject(error: Error): void
}

const closedError = () => new SqliteError('the store is closed', undefined)

/** A thread with connections of its own; it runs its tasks in the order they are sent. */
function startThread(options: ThreadOptions) {
  const worker = takeThread()
  const send = (message: ThreadMessage, memory: readonly ArrayBuffer[] = []) =>
    worker.postMessage(message, memory)
  const waiting = new Map<number, Waiting>()
  let nextId = 0
  let failure: Error | undefined
  let onClosed = () => {}
  /** When the thread began with the oldest task. */
  let begunMs = 0
  /** Since when the thread has had tasks all the time, not counting its start; undefined: it is starting. */
  let busySinceMs: number | undefined

  worker.on('message', (response: ThreadResponse) => {
    if (response === 'closed') {
      leaveThread(worker)
      end()
      return
    }
    const caller = waiting.get(response.id)
    waiting.delete(response.id)
    begunMs = performance.now()
    busySinceMs ??= begunMs
    if ('error' in response) caller?.reject(errorOf(caller.task, response.error))
    else caller?.resolve(response.result)
  })
  const fail = (error: Error) => {
    failure = error
    for (const caller of waiting.values()) caller.reject(error)
    waiting.clear()
  }
  worker.on('error', error => fail(failureOf(error)))
  const end = () => {
    fail(failure ?? closedError())
    onClosed()
  }
  worker.on('exit', end)
  send({ open: options })

  return {
    run: (task: ThreadTask) =>
      new Promise<TaskResult>((resolve, reject) => {
        if (failure) return reject(failure)
        const id = nextId++
        if (waiting.size === 0) {
          begunMs = performance.now()
          if (busySinceMs !== undefined) busySinceMs = begunMs
        }
        waiting.set(id, { task, resolve, reject })
        send({ id, task }, memoryOf(task))
      }),
    load: () => waiting.size,
    /**
     * Whether further tasks would wait for long, and longer than another thread takes to start: many short tasks that were sent at once
     * are soon done.
     */
    isBusy: () =>
      waiting.size > 0 &&
      busySinceMs !== undefined &&
      performance.now() - busySinceMs > START_MS &&
      (waiting.size > MAX_WAITING || performance.now() - begunMs > LONG_TASK_MS),
    /** It has answered, so an error is that of its task. */
    hasStarted: () => busySinceMs !== undefined,
    /** The thread has ended: it ran out of memory, or it was closed. */
    hasEnded: () => failure !== undefined,
    close: () =>
      new Promise<void>(resolve => {
        if (failure) return resolve()
        onClosed = resolve
        send('close')
        // Tasks that were sent before still have their results.
        failure = closedError()
      }),
  }
}

type Thread = ReturnType<typeof startThread>

/** One holder at a time, in order of arrival. */
function createMutex() {
  let tail = Promise.resolve()
  return {
    acquire(): Promise<() => void> {
      const before = tail
      let release = () => {}
      tail = new Promise<void>(resolve => {
        release = resolve
      })
      return before.then(() => release)
    },
  }
}

type Connection = DatabaseConnection & {
  begin(): Promise<void>
  finish(sql: 'COMMIT' | 'ROLLBACK'): Promise<void>
  /** One transaction of its own, run as a whole by the writer's thread. */
  applySettled(batch: BatchMessage): Promise<void>
}

export const applyOnSqlite = (db: Kysely<Database>, batch: BatchMessage): Promise<void> =>
  db.getExecutor().provideConnection(connection => (connection as Connection).applySettled(batch))

type SqliteOptions = { path: string; fullSync: boolean; readers?: number }

/**
 * Kysely over `node:sqlite`: one thread writes, others read. A transaction occupies the writer from BEGIN IMMEDIATE to its
 * end. A single SELECT runs on the least busy reader and sees everything that was committed before it was sent. A gateway with little
 * data and traffic has no readers: its writer's thread reads too, over a second connection.
 */
export function createSqliteDialect({
  path,
  fullSync,
  readers = Math.min(4, availableParallelism()),
}: SqliteOptions): Dialect {
  function createDriver(): Driver {
    const turn = createMutex()
    let writer: Thread
    let readerThreads: readonly Thread[] = []
    let isClosed = false
    let isSmall = false
    let batches = 0

    const startWriter = () => startThread({ path, fullSync, readonly: false })

    const startReader = () => {
      const thread = startThread({ path, fullSync, readonly: true })
      readerThreads = [...readerThreads, thread]
      return thread
    }

    const isWriterEnough = () =>
      isSmall && batches < FEW_BATCHES && readerThreads.length === 0 && !writer.isBusy() && !writer.hasEnded()

    /** Starts another reader only when all are busy, because each takes some megabytes and 30 ms of CPU time. */
    const leastBusy = () => {
      // Nothing would end a thread that is started after `destroy`. The writer's thread reports that the store is closed.
      if (isClosed || isWriterEnough()) return writer
      // A thread that has ended has no load and would always be selected.
      readerThreads = readerThreads.filter(thread => !thread.hasEnded())
      const [first = startReader(), ...others] = readerThreads
      const idlest = others.reduce((a, b) => (b.load() < a.load() ? b : a), first)
      return idlest.isBusy() && readerThreads.length < readers ? startReader() : idlest
    }

    async function read(task: ThreadTask): Promise<TaskResult> {
      const thread = leastBusy()
      try {
        return await thread.run(task)
      } catch (error) {
        // No thread can be started, for example without a free file descriptor. The writer's thread can read, too.
        if (thread === writer || thread.hasStarted()) throw error
        return writer.run(task)
      }
    }

    /** Restarts a writer that has ended; its open transaction was rolled back with its connection. */
    async function takeTurn(): Promise<() => void> {
      const done = await turn.acquire()
      if (writer.hasEnded() && !isClosed) writer = startWriter()
      return done
    }

    function createConnection(): Connection {
      let release: (() => void) | undefined

      async function write(task: ThreadTask): Promise<TaskResult> {
        if (release) return writer.run(task)
        const done = await takeTurn()
        return writer.run(task).finally(done)
      }

      return {
        async begin() {
          release = await takeTurn()
          await writer.run(statement('BEGIN IMMEDIATE')).catch(error => {
            release?.()
            release = undefined
            throw error
          })
        },
        async finish(sql) {
          const done = release
          // After a failed commit Kysely requests a rollback too, when another connection may already use the writer.
          if (!done) return
          try {
            await writer.run(statement(sql))
          } catch (error) {
            // SQLite may have rolled back by itself. In both cases no transaction is open for the next connection.
            await writer.run(statement('ROLLBACK')).catch(() => {})
            if (sql === 'COMMIT') throw error
          } finally {
            release = undefined
            done()
          }
        },
        async executeQuery<R>({ sql, parameters, query }: CompiledQuery): Promise<QueryResult<R>> {
          const isRead = !release && query.kind === 'SelectQueryNode'
          const task = { sql, parameters, isRead }
          const { rows, changes } = await (isRead ? read(task) : write(task))
          return { rows: rows as R[], numAffectedRows: BigInt(changes) }
        },
        async applySettled(batch) {
          batches++
          await write({ batch })
        },
        // biome-ignore lint/correctness/useYield: the store's lists are paged, nothing streams
        async *streamQuery() {
          throw new SqliteError('streaming is not offered', undefined)
        },
      }
    }

    return {
      async init() {
        writer = startWriter()
        // The writer must create the file and its WAL before a reader opens them.
        await writer.run(statement('SELECT 1'))
        isSmall = statSync(path).size < SMALL_FILE_BYTES
      },
      acquireConnection: async () => createConnection(),
      beginTransaction: connection => (connection as Connection).begin(),
      commitTransaction: connection => (connection as Connection).finish('COMMIT'),
      rollbackTransaction: connection => (connection as Connection).finish('ROLLBACK'),
      releaseConnection: async () => {},
      async destroy() {
        isClosed = true
        await Promise.all(readerThreads.map(thread => thread.close()))
        await writer.close()
      },
    }
  }

  return {
    createDriver,
    createAdapter: () => new TransactionalAdapter(),
    createQueryCompiler: () => new SqliteQueryCompiler(),
    createIntrospector: db => new SqliteIntrospector(db),
  }
}

/** Migrations run inside BEGIN IMMEDIATE, which is the lock: SQLite's DDL is transactional. */
class TransactionalAdapter extends KeyedSqliteAdapter {
  // Without this, Kysely would serialize all queries, and every read would wait for open transactions.
  override get supportsMultipleConnections(): boolean {
    return true
  }
  override get supportsTransactionalDdl(): boolean {
    return true
  }
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}
