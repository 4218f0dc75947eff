/**
 * Loaded into a server of the tests before anything of its own: ends the process with SIGKILL at a named point of the
 * walk. The product knows nothing of it. A request names its point in a header; a start names it in the environment.
 */
import http from 'node:http'
import { DatabaseSync, StatementSync } from 'node:sqlite'
import { isMainThread, Worker } from 'node:worker_threads'
import pg from 'pg'
import { Pool } from 'undici'
import { KILL_HEADER, KILL_VARIABLE } from './kill-names.ts'

/** Long enough for a provider on this machine to have read what was sent. */
const ARRIVAL_MS = 150

let armed = process.env[KILL_VARIABLE]
let armedResponse: http.ServerResponse | undefined

function reach(point: string): void {
  if (armed === point) process.kill(process.pid, 'SIGKILL')
  // The signal may take a moment: nothing of what the point forbids may happen in it.
  if (armed === point) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
}

// biome-ignore lint/suspicious/noExplicitAny: methods of other people's classes, of any shape
type Method = (this: any, ...given: any[]) => any

/** Puts something around a method; `inner` is the method as it was. */
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
      function (this: http.Server, event: string, ...given: unknown[]) {
        if (event === 'request') {
          const [request, response] = given as [http.IncomingMessage, http.ServerResponse]
          const point = request.headers[KILL_HEADER]
          if (typeof point === 'string') {
            armed = point
            armedResponse = response
            reach('request arrived')
          }
        }
        return emit.call(this, event, ...given)
      },
  )
  for (const name of ['write', 'end'] as const) {
    wrap(
      http.ServerResponse.prototype,
      name,
      method =>
        function (this: http.ServerResponse, ...given: unknown[]) {
          if (this !== armedResponse) return method.apply(this, given)
          reach('before the first byte')
          if (name === 'write') return method.call(this, given[0], () => reach('after the first byte'))
          this.once('finish', () => reach('after the last byte'))
          return method.apply(this, given)
        },
    )
  }
}

/** The journal, wherever and however it is committed: by its own COMMIT, or by a statement outside a transaction. */
function watchJournal(): void {
  const KINDS = ['attempt', 'progress', 'settle'] as const
  const paths = new WeakMap<StatementSync, DatabaseSync>()
  const waiting = new WeakMap<DatabaseSync, Set<string>>()
  const isJournal = (db: DatabaseSync) => /journal-\d+\.db$/.test(db.location() ?? '')

  function committing<T>(db: DatabaseSync, commit: () => T): T {
    const kinds = [...(waiting.get(db) ?? [])]
    waiting.delete(db)
    for (const kind of kinds) reach(`before the ${kind} is committed`)
    const result = commit()
    for (const kind of kinds) reach(`after the ${kind} is committed`)
    return result
  }

  function noting(db: DatabaseSync, values: readonly unknown[]): void {
    const kinds = waiting.get(db) ?? new Set()
    for (const kind of KINDS) if (values.some(value => String(value).includes(`"${kind}"`))) kinds.add(kind)
    waiting.set(db, kinds)
  }

  wrap(
    DatabaseSync.prototype,
    'prepare',
    prepare =>
      function (this: DatabaseSync, ...given: unknown[]) {
        const statement = prepare.apply(this, given)
        if (isJournal(this)) paths.set(statement, this)
        return statement
      },
  )
  for (const name of ['run', 'all', 'get'] as const)
    wrap(
      StatementSync.prototype,
      name,
      run =>
        function (this: StatementSync, ...given: unknown[]) {
          const db = paths.get(this)
          if (!db) return run.apply(this, given)
          noting(db, given)
          const isCommit = !db.isTransaction || /^\s*(commit|end)/i.test(this.sourceSQL)
          return isCommit ? committing(db, () => run.apply(this, given)) : run.apply(this, given)
        },
    )
  wrap(
    DatabaseSync.prototype,
    'exec',
    exec =>
      function (this: DatabaseSync, text: string) {
        if (!isJournal(this)) return exec.call(this, text)
        if (/^\s*rollback/i.test(text)) waiting.delete(this)
        noting(this, [text])
        return /\b(commit|end)\b/i.test(text) || !this.isTransaction
          ? committing(this, () => exec.call(this, text))
          : exec.call(this, text)
      },
  )
}

/** What goes to the provider and comes back. */
function watchUpstream(): void {
  wrap(
    Pool.prototype,
    'dispatch',
    dispatch =>
      function (this: Pool, options: object, handler: Record<string, Method>) {
        reach('before the dispatch')
        const watched = Object.create(handler) as Record<string, Method>
        watched.onRequestStart = (...given) => {
          handler.onRequestStart?.(...given)
          if (armed === 'after the dispatch') setTimeout(() => reach('after the dispatch'), ARRIVAL_MS)
        }
        watched.onResponseStart = (...given) => {
          reach('when the provider answers')
          handler.onResponseStart?.(...given)
        }
        return dispatch.call(this, options, watched)
      },
  )
}

/** Transactions of the store by what they begin with, each before, within and after. */
const WORKS = [
  { work: 'lease', isOf: /insert into "leases"/i },
  { work: 'apply', isOf: /insert into "entries"/i },
  { work: 'opening of the node', isOf: /insert into "nodes"/i },
  { work: 'return of all leases', isOf: /delete from "leases"/i },
] as const

/** Follows the statements of one connection. */
function createFollower() {
  let works: string[] = []
  return {
    before(text: string): void {
      for (const { work, isOf } of WORKS)
        if (isOf.test(text)) {
          works.push(work)
          reach(`within the ${work}`)
        }
      if (/^\s*commit/i.test(text)) for (const work of works) reach(`before the ${work} is committed`)
    },
    after(text: string): void {
      if (!/^\s*(commit|rollback)/i.test(text)) return
      for (const work of works) reach(`after the ${work} is committed`)
      works = []
    },
  }
}

/** SQLite, whose one writer is a thread: seen from the messages to and from it. */
function watchWriter(): void {
  const followers = new WeakMap<Worker, ReturnType<typeof createFollower>>()
  const asked = new WeakMap<Worker, Map<number, string>>()
  wrap(
    Worker.prototype,
    'postMessage',
    post =>
      function (this: Worker, message: unknown, ...more: unknown[]) {
        const { id, sql } = (message ?? {}) as { id?: number; sql?: string }
        if (id !== undefined && typeof sql === 'string') {
          const follower = followers.get(this) ?? createFollower()
          followers.set(this, follower)
          const texts = asked.get(this) ?? new Map<number, string>()
          asked.set(this, texts.set(id, sql))
          follower.before(sql)
        }
        return post.call(this, message, ...more)
      },
  )
  wrap(
    Worker.prototype,
    'emit',
    emit =>
      function (this: Worker, event: string, ...given: unknown[]) {
        const { id } = ((event === 'message' && given[0]) || {}) as { id?: number }
        const text = id === undefined ? undefined : asked.get(this)?.get(id)
        if (id !== undefined && text !== undefined) {
          asked.get(this)?.delete(id)
          followers.get(this)?.after(text)
        }
        return emit.call(this, event, ...given)
      },
  )
}

function watchPostgres(): void {
  const followers = new WeakMap<pg.Client, ReturnType<typeof createFollower>>()
  wrap(
    pg.Client.prototype,
    'query',
    query =>
      function (this: pg.Client, ...given: unknown[]) {
        const [asked] = given as [string | { text?: string }]
        const text = typeof asked === 'string' ? asked : (asked?.text ?? '')
        const follower = followers.get(this) ?? createFollower()
        followers.set(this, follower)
        follower.before(text)
        const result = query.apply(this, given)
        if (!(result instanceof Promise)) return result
        return result.then(rows => {
          follower.after(text)
          return rows
        })
      },
  )
}

if (isMainThread) {
  watchFront()
  watchJournal()
  watchUpstream()
  watchWriter()
  watchPostgres()
}
