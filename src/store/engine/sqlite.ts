import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import { UnreachableError } from '../../domain/errors.ts'
import { programFile } from '../../host/program-file.ts'
import { KeyedSqliteAdapter } from '../books/chain-key.ts'
import type { Statement, StatementOutcome, ThreadOptions } from './sqlite-thread.ts'

/** What SQLite itself said, with its extended result code. */
export class SqliteError extends Error {
  readonly errcode: number | undefined
  constructor(message: string, errcode: number | undefined) {
    super(message)
    this.name = 'SqliteError'
    this.errcode = errcode
  }
}

/** What SQLite says when its file, and not the statement, is the trouble (its result codes). */
const TROUBLE: ReadonlySet<number> = new Set([
  5, // busy: another process writes, for longer than we wait
  6, // locked
  8, // read only
  10, // the disk fails
  13, // the disk is full
  14, // the file cannot be opened
])
const DISK_FAILS = 10

function errorOf(sql: string, { message, errcode }: { message: string; errcode: number | undefined }): Error {
  const said = new SqliteError(message, errcode)
  const primary = (errcode ?? 0) & 0xff
  if (!TROUBLE.has(primary)) return said
  // Whatever else is refused has not been done; a commit that the disk broke may have reached it.
  return new UnreachableError(said, { isInDoubt: sql === 'COMMIT' && primary === DISK_FAILS })
}

/** What a statement leaves behind is garbage at once; more room for it would only be memory that nobody gives back. */
const YOUNG_MB = 8

type Waiting = {
  readonly sql: string
  resolve(outcome: { rows: unknown[]; changes: number }): void
  reject(error: Error): void
}

/** A thread with a connection of its own; statements run in the order they are sent. */
function startThread(options: ThreadOptions) {
  const worker = new Worker(programFile('store/engine/sqlite-thread'), {
    workerData: options,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
  })
  const waiting = new Map<number, Waiting>()
  let nextId = 0
  let failure: Error | undefined

  worker.on('message', (outcome: StatementOutcome) => {
    const caller = waiting.get(outcome.id)
    waiting.delete(outcome.id)
    if ('error' in outcome) caller?.reject(errorOf(caller.sql, outcome.error))
    else caller?.resolve(outcome)
  })
  const fail = (error: Error) => {
    failure = error
    for (const caller of waiting.values()) caller.reject(error)
    waiting.clear()
  }
  worker.on('error', error => fail(error instanceof Error ? error : new Error(String(error))))
  worker.on('exit', () => fail(failure ?? new SqliteError('the store is closed', undefined)))

  return {
    run: (sql: string, parameters: readonly unknown[]) =>
      new Promise<{ rows: unknown[]; changes: number }>((resolve, reject) => {
        if (failure) return reject(failure)
        const id = nextId++
        waiting.set(id, { sql, resolve, reject })
        worker.postMessage({ id, sql, parameters } satisfies Statement)
      }),
    load: () => waiting.size,
    /** It runs nothing any more: its memory ran out, or it was closed. */
    isOver: () => failure !== undefined,
    close: () =>
      new Promise<void>(resolve => {
        if (failure) return resolve()
        worker.once('exit', () => resolve())
        worker.postMessage('close')
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
}

export type SqliteOptions = { path: string; fullSync: boolean; readers?: number }

/**
 * Kysely over `node:sqlite`: one thread writes, others read. A transaction holds the writer from BEGIN IMMEDIATE to
 * its end; a lone SELECT goes to the least busy reader and sees everything committed before it was sent.
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

    const startWriter = () => startThread({ path, fullSync, readonly: false })

    const startReader = () => {
      const thread = startThread({ path, fullSync, readonly: true })
      readerThreads = [...readerThreads, thread]
      return thread
    }

    /** Another reader is started when all are busy: each takes some megabytes, and an idle gateway needs one. */
    const leastBusy = () => {
      // One that is over would be the idlest for ever.
      if (!isClosed) readerThreads = readerThreads.filter(thread => !thread.isOver())
      const [first = startReader(), ...others] = readerThreads
      const idlest = others.reduce((a, b) => (b.load() < a.load() ? b : a), first)
      return idlest.load() > 0 && readerThreads.length < readers ? startReader() : idlest
    }

    /** Whose turn it is finds a writer that lives; what the last one had open died with its connection. */
    async function takeTurn(): Promise<() => void> {
      const done = await turn.acquire()
      if (writer.isOver() && !isClosed) writer = startWriter()
      return done
    }

    function createConnection(): Connection {
      let release: (() => void) | undefined

      async function write(sql: string, parameters: readonly unknown[]) {
        if (release) return writer.run(sql, parameters)
        const done = await takeTurn()
        return writer.run(sql, parameters).finally(done)
      }

      return {
        async begin() {
          release = await takeTurn()
          await writer.run('BEGIN IMMEDIATE', []).catch(error => {
            release?.()
            release = undefined
            throw error
          })
        },
        async finish(sql) {
          const done = release
          // After a commit that failed Kysely asks for a rollback too, when the turn may be somebody else's.
          if (!done) return
          try {
            await writer.run(sql, [])
          } catch (error) {
            // SQLite may have rolled back by itself; either way nothing is open when the next one takes its turn.
            await writer.run('ROLLBACK', []).catch(() => {})
            if (sql === 'COMMIT') throw error
          } finally {
            release = undefined
            done()
          }
        },
        async executeQuery<R>({ sql, parameters, query }: CompiledQuery): Promise<QueryResult<R>> {
          const isRead = !release && query.kind === 'SelectQueryNode'
          const { rows, changes } = await (isRead ? leastBusy().run(sql, parameters) : write(sql, parameters))
          return { rows: rows as R[], numAffectedRows: BigInt(changes) }
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
        // The writer creates the file and its WAL before a reader looks for them.
        await writer.run('SELECT 1', [])
        startReader()
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
  // Otherwise Kysely would let one query at a time through, and every read would wait for open transactions.
  override get supportsMultipleConnections(): boolean {
    return true
  }
  override get supportsTransactionalDdl(): boolean {
    return true
  }
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}
