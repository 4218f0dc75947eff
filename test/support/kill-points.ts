/**
 * Loaded into a test server before its own code: ends the process with SIGKILL at a named point of a request.
 * The product does not know it. A request names its point in a header; a start names it in the environment.
 */
import fs from 'node:fs'
import http from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import { join } from 'node:path'
import { DatabaseSync, StatementSync } from 'node:sqlite'
import { isMainThread } from 'node:worker_threads'
import type pg from 'pg'
import { KILL_HEADER, KILL_VARIABLE } from './kill-names.ts'

/** Long enough for a provider on this machine to have read what was sent. */
const ARRIVAL_MS = 150

/** Threads do not see requests: they read the point from a file beside the data. */
const FILE = join(process.env.SLUICE_DATA ?? '', 'kill-at')

let armed = process.env[KILL_VARIABLE]
let armedResponse: http.ServerResponse | undefined

function arm(point: string, response: http.ServerResponse): void {
  armed = point
  armedResponse = response
  fs.writeFileSync(FILE, point)
}

function isAt(point: string): boolean {
  if (isMainThread || armed !== undefined) return armed === point
  return fs.existsSync(FILE) && fs.readFileSync(FILE, 'utf8') === point
}

function reach(point: string): void {
  if (!isAt(point)) return
  // The next start must not end there too.
  fs.rmSync(FILE, { force: true })
  process.kill(process.pid, 'SIGKILL')
  // The signal may be delayed: nothing that the point excludes may happen meanwhile.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
}

// biome-ignore lint/suspicious/noExplicitAny: methods of third-party classes, of any type
type Method = (this: any, ...given: any[]) => any

/** Wraps a method; `inner` is the original. */
// biome-ignore lint/suspicious/noExplicitAny: as above
function wrap(owner: any, name: string, around: (inner: Method) => Method): void {
  owner[name] = around(owner[name] as Method)
}

/** The request and its response: arrival, first byte, last byte. */
function watchFront(): void {
  wrap(
    http.Server.prototype,
    'emit',
    emit =>
      function (this: http.Server, event: string, ...args: unknown[]) {
        if (event === 'request') {
          const [request, response] = args as [http.IncomingMessage, http.ServerResponse]
          const point = request.headers[KILL_HEADER]
          if (typeof point === 'string') {
            arm(point, response)
            reach('request arrived')
          }
        }
        return emit.call(this, event, ...args)
      },
  )
  for (const name of ['write', 'end'] as const) {
    wrap(
      http.ServerResponse.prototype,
      name,
      method =>
        function (this: http.ServerResponse, ...args: unknown[]) {
          if (this !== armedResponse) return method.apply(this, args)
          reach('before the first byte')
          if (name === 'write') return method.call(this, args[0], () => reach('after the first byte'))
          this.once('finish', () => reach('after the last byte'))
          return method.apply(this, args)
        },
    )
  }
}

/** Statements of every SQLite database, each with its file. */
function watchStatements(
  around: (path: string, text: string, values: readonly unknown[], run: () => unknown) => unknown,
): void {
  const databases = new WeakMap<StatementSync, DatabaseSync>()
  wrap(
    DatabaseSync.prototype,
    'prepare',
    prepare =>
      function (this: DatabaseSync, ...args: unknown[]) {
        const statement = prepare.apply(this, args)
        databases.set(statement, this)
        return statement
      },
  )
  for (const name of ['run', 'all', 'get'] as const)
    wrap(
      StatementSync.prototype,
      name,
      run =>
        function (this: StatementSync, ...args: unknown[]) {
          const path = databases.get(this)?.location() ?? ''
          return around(path, this.sourceSQL, args, () => run.apply(this, args))
        },
    )
  wrap(
    DatabaseSync.prototype,
    'exec',
    exec =>
      function (this: DatabaseSync, text: string) {
        return around(this.location() ?? '', text, [], () => exec.call(this, text))
      },
  )
}

const JOURNAL = /journal-\d+\.(db|log)$/
const RECORDS = ['attempt', 'progress', 'settle'] as const

const recordsIn = (values: readonly unknown[]) =>
  RECORDS.filter(kind => values.some(value => String(value).includes(`"kind":"${kind}"`)))

function committing<T>(kinds: readonly string[], commit: () => T): T {
  for (const kind of kinds) reach(`before the ${kind} is committed`)
  const result = commit()
  for (const kind of kinds) reach(`after the ${kind} is committed`)
  return result
}

/** A journal that is a file: a write is its commit. */
function watchJournalFile(): void {
  const pathOf = (file: number) => fs.readlinkSync(`/proc/self/fd/${file}`)
  for (const name of ['writeSync', 'writevSync', 'appendFileSync'] as const)
    wrap(
      fs,
      name,
      write =>
        function (this: unknown, file: number | string, ...args: unknown[]) {
          const isJournal =
            armed !== undefined && JOURNAL.test(typeof file === 'number' ? pathOf(file) : file)
          const kinds = isJournal ? recordsIn(args.flat()) : []
          return committing(kinds, () => write.call(this, file, ...args))
        },
    )
  syncBuiltinESMExports()
}

const HEAD = /^(?:GET|POST|DELETE) \S+ HTTP\/1\.1\r\n/

/** Requests to the provider and their responses: the gateway's client is the only one that reads into its own buffer. */
function watchUpstream(): void {
  wrap(
    net,
    'connect',
    connect =>
      function (this: unknown, options: net.NetConnectOpts, ...args: unknown[]) {
        const { onread } = options
        if (!onread) return connect.call(this, options, ...args)
        const callback: typeof onread.callback = (...read) => {
          reach('when the provider answers')
          return onread.callback(...read)
        }
        const socket = connect.call(this, { ...options, onread: { ...onread, callback } }, ...args)
        wrap(
          socket,
          'write',
          write =>
            function (this: net.Socket, data: Buffer | string, ...more: unknown[]) {
              const isHead = HEAD.test(data.toString('latin1'))
              if (isHead) reach('before the dispatch')
              const hasRoom = write.call(this, data, ...more)
              if (isHead && armed === 'after the dispatch')
                setTimeout(() => reach('after the dispatch'), ARRIVAL_MS)
              return hasRoom
            },
        )
        return socket
      },
  )
  syncBuiltinESMExports()
}

/**
 * Transactions of the store, identified by one of their statements: before it, before and after the commit.
 */
const WORKS = [
  { work: 'lease', isOf: /insert into "?leases"?/i },
  { work: 'apply', isOf: /insert into "?entries"?/i },
  { work: 'opening of the node', isOf: /insert into "?nodes"?/i },
  { work: 'return of all leases', isOf: /delete from "?leases"?/i },
] as const

/** Tracks the statements of one connection; one outside a transaction is committed when it ends. */
function createFollower() {
  let works: string[] = []
  let isOpen = false
  return {
    before(text: string): void {
      if (/^\s*(begin|start transaction)/i.test(text)) isOpen = true
      for (const { work, isOf } of WORKS)
        if (isOf.test(text)) {
          works.push(work)
          reach(`within the ${work}`)
        }
      if (/^\s*commit/i.test(text) || !isOpen)
        for (const work of works) reach(`before the ${work} is committed`)
    },
    after(text: string): void {
      if (/^\s*(commit|rollback)/i.test(text)) isOpen = false
      if (isOpen) return
      for (const work of works) reach(`after the ${work} is committed`)
      works = []
    },
  }
}

/** SQLite: the databases of the journal and the store, on any thread. */
function watchSqlite(): void {
  /** Record kinds of journals with open transactions; a statement outside one is committed when it ends. */
  const open = new Map<string, Set<string>>()
  const follower = createFollower()
  watchStatements((path, text, values, run) => {
    if (JOURNAL.test(path)) {
      if (/^\s*begin\b/i.test(text)) open.set(path, new Set())
      const kinds = open.get(path) ?? new Set<string>()
      for (const kind of recordsIn(values)) kinds.add(kind)
      const isEnd = /^\s*(commit|end|rollback)\b/i.test(text)
      if (open.has(path) && !isEnd) return run()
      open.delete(path)
      return committing([...kinds], run)
    }
    if (!path.endsWith('sluice.db')) return run()
    follower.before(text)
    const result = run()
    follower.after(text)
    return result
  })
}

function watchPostgres({ Client }: typeof pg): void {
  const followers = new WeakMap<pg.Client, ReturnType<typeof createFollower>>()
  wrap(
    Client.prototype,
    'query',
    query =>
      function (this: pg.Client, ...args: unknown[]) {
        const [statement] = args as [string | { text?: string }]
        const text = typeof statement === 'string' ? statement : (statement?.text ?? '')
        const follower = followers.get(this) ?? createFollower()
        followers.set(this, follower)
        follower.before(text)
        const result = query.apply(this, args)
        if (!(result instanceof Promise)) return result
        return result.then(rows => {
          follower.after(text)
          return rows
        })
      },
  )
}

watchSqlite()
if (isMainThread) {
  watchFront()
  watchJournalFile()
  watchUpstream()
  // Loading it takes longer than all the rest here.
  if (process.env.DATABASE_URL !== undefined) watchPostgres((await import('pg')).default)
}
