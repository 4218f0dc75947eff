import { CompiledQuery, type PostgresPool, type PostgresPoolClient } from 'kysely'
import type { Client, ClientBase, ClientConfig, PoolClient, PoolConfig } from 'pg'
import { UnreachableError } from '../../domain/errors.ts'
import { parsePostgresUrl, type ServerKind } from './postgres-url.ts'

const STATEMENT_TIMEOUT_MS = 30_000
/** A machine that is cut off inside a transaction blocks the rows that it has changed for this long. */
const IDLE_IN_TRANSACTION_MS = 10_000
/** Longer than PostgreSQL's own timeout: it ends queries only if the server does not respond at all. */
const QUERY_TIMEOUT_MS = 35_000
const CONNECT_TIMEOUT_MS = 10_000
const PING_TIMEOUT_MS = 3_000
/** With several hosts, one that does not respond must not delay the next one for long. */
const HOST_TIMEOUT_MS = 3_000
/** The message of the pool if all its connections are in use for too long. Another host would not help. */
const POOL_EXHAUSTED = 'timeout exceeded when trying to connect'

/** Amounts and ids stay below 2^53 (docs/reference/money.md: Units), so a bigint is read as a number. */
const INT8_OID = 20
const NUMERIC_OID = 1700

/**
 * Error codes (PostgreSQL, appendix A) that concern the server and not the statement: a broken connection, a shutdown, too
 * many connections, a full disk or too little memory, a server that is read-only after a failover, a timeout of a statement, a
 * transaction or a lock.
 */
const CONNECTION_CODES = /^(08...|53...|55P03|57P0.|57014|58030|25006|25P0[34])$/

/**
 * Errors of the server have a severity, those of a socket a system call, and bugs of ours a subclass of Error: the rest are
 * connection errors of the driver.
 */
function isConnectionError(
  error: Error & { code?: unknown; severity?: unknown; syscall?: unknown },
): boolean {
  if (error.severity !== undefined) return CONNECTION_CODES.test(String(error.code))
  if (error.syscall !== undefined || error instanceof AggregateError) return true
  return Object.getPrototypeOf(error) === Error.prototype
}

/** A host name with several addresses fails once for each. */
const firstErrorOf = (error: Error): Error =>
  error instanceof AggregateError && error.errors[0] instanceof Error ? error.errors[0] : error

export type Statement = { readonly text: string; readonly values: readonly unknown[] }
export type StatementResult = { readonly count: number; readonly rows: readonly unknown[] }

const PIPELINE = '/* pipeline */'
/**
 * Several statements of a transaction that are sent at once. The rows of the result are their results. Each statement is
 * prepared once for each connection: PostgreSQL then parses it once, and soon plans it once.
 */
export const pipelineOf = (statements: readonly Statement[]): CompiledQuery<StatementResult> =>
  CompiledQuery.raw(PIPELINE, [...statements])

/** The names of prepared statements. There are few: their text does not depend on data. */
const preparedNames = new Map<string, string>()
function preparedNameOf(statement: string): string {
  const name = preparedNames.get(statement) ?? `sluice_${preparedNames.size + 1}`
  preparedNames.set(statement, name)
  return name
}

async function runPipeline(client: PoolClient, statements: readonly Statement[]) {
  const outcomes = await Promise.allSettled(
    statements.map(({ text, values }) =>
      client.query({ name: preparedNameOf(text), text, values: values as unknown[] }),
    ),
  )
  // The first error is the cause of those that follow it in the transaction.
  const rows = outcomes.map((outcome): StatementResult => {
    if (outcome.status === 'rejected') throw outcome.reason
    return { count: outcome.value.rowCount ?? 0, rows: outcome.value.rows }
  })
  return { command: 'SELECT', rowCount: rows.length, rows }
}

const isCommit = (statement: string) => statement === 'commit'

/** A connection that fails fast after a connection error, and is then not returned to the pool for reuse. */
function watchedClient(client: PoolClient): PostgresPoolClient {
  let failure: UnreachableError | undefined
  async function query(statement: string, parameters: readonly unknown[]) {
    if (failure) throw failure
    try {
      return statement === PIPELINE
        ? await runPipeline(client, parameters as Statement[])
        : await client.query(statement, parameters as unknown[])
    } catch (error) {
      if (!(error instanceof Error) || !isConnectionError(error)) throw error
      failure = new UnreachableError(firstErrorOf(error), { isOutcomeUnknown: isCommit(statement) })
      throw failure
    }
  }
  return {
    query: query as never,
    release: isBroken => client.release(isBroken || failure !== undefined),
  }
}

/** Whether the server of a connection is of this kind. */
async function isOfKind(client: ClientBase, kind: ServerKind): Promise<boolean> {
  if (kind === 'any') return true
  const { rows } = await client.query(
    "select pg_is_in_recovery() or current_setting('transaction_read_only') = 'on' as is_read_only",
  )
  return rows[0].is_read_only === (kind !== 'writable')
}

const WRONG_KIND: Readonly<Record<ServerKind, string>> = {
  writable: 'no host of the URL accepts writes',
  standby: 'no host of the URL is a standby',
  preferStandby: 'no host of the URL can be used',
  any: 'no host of the URL can be used',
}

/**
 * The host that the next connection uses. After a failure, or if the server is of another kind, the following one is tried.
 * The last host that worked stays the first one to try.
 */
function createHosts(hosts: readonly string[], kind: ServerKind) {
  let index = 0
  /** In the first round, prefer a standby; in the second one, any server will do. */
  const rounds: readonly ServerKind[] = kind === 'preferStandby' ? ['standby', 'any'] : [kind]
  let kindInRound = rounds[0] ?? kind
  return {
    current: () => hosts[index] as string,
    /** Called for each new connection. */
    async check(client: ClientBase): Promise<void> {
      if (!(await isOfKind(client, kindInRound))) throw new Error(WRONG_KIND[kindInRound])
    },
    async connect<Client>(open: () => Promise<Client>): Promise<Client> {
      let failure: unknown
      for (const round of rounds) {
        kindInRound = round
        for (let tries = 0; tries < hosts.length; tries++) {
          const tried = index
          try {
            return await open()
          } catch (error) {
            if ((error as Error).message === POOL_EXHAUSTED) throw error
            failure = error
            // Another connection may have moved on already.
            if (index === tried) index = (index + 1) % hosts.length
          }
        }
      }
      throw failure
    },
  }
}

/**
 * The driver is loaded with the first query: a gateway on SQLite never needs it. Before a new connection is used, the pool waits
 * for `onConnect`.
 */
export async function createPool(
  url: string,
  options: PoolConfig,
  onConnect: (client: ClientBase) => Promise<void> = async () => {},
): Promise<PostgresPool> {
  const { default: pg } = await import('pg')
  const { hosts: urls, kind = urls.length > 1 ? 'writable' : 'any' } = parsePostgresUrl(url)
  const hosts = createHosts(urls, kind)
  const several = urls.length > 1 && { connectionTimeoutMillis: HOST_TIMEOUT_MS }
  /** The pool creates its clients with `new`. */
  function HostClient(config: ClientConfig): Client {
    return new pg.Client({ ...config, connectionString: hosts.current(), ...several })
  }
  const types = {
    getTypeParser: (oid: number, format?: 'text' | 'binary') =>
      oid === INT8_OID || oid === NUMERIC_OID ? Number : pg.types.getTypeParser(oid, format as 'text'),
  }
  const pool = new pg.Pool({
    Client: HostClient as never,
    async onConnect(client) {
      if (kind !== 'any') await hosts.check(client)
      await onConnect(client)
    },
    statement_timeout: STATEMENT_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    keepAlive: true,
    pipeline: true,
    types: types as NonNullable<PoolConfig['types']>,
    ...options,
  })
  // The pool replaces an idle connection that breaks; the next query reports an unreachable database.
  pool.on('error', () => {})
  // A checked-out connection that breaks between two queries fails the next one; without a listener the error would end the
  // process.
  pool.on('connect', client => void client.on('error', () => {}))
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      try {
        return watchedClient(await hosts.connect(() => pool.connect()))
      } catch (error) {
        throw new UnreachableError(firstErrorOf(error as Error))
      }
    },
  }
}

/** The number of promotions in the history of a server. Some managed servers do not report it. */
const TIMELINE = 'select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as timeline'

type TimelineClient = {
  query(sql: string): Promise<{ readonly rows: readonly { readonly timeline: string }[] }>
}

export const readTimeline = (client: TimelineClient, onTimeline: (timeline: string) => void): Promise<void> =>
  client.query(TIMELINE).then(
    ({ rows }) => void (rows[0] && onTimeline(rows[0].timeline)),
    () => {},
  )

/** `onTimeline` is called for each new connection. */
export const openPool = (
  url: string,
  options: PoolConfig,
  onTimeline: (timeline: string) => void = () => {},
) =>
  createPool(
    url,
    { connectionTimeoutMillis: CONNECT_TIMEOUT_MS, query_timeout: QUERY_TIMEOUT_MS, ...options },
    client => readTimeline(client, onTimeline),
  )

/**
 * Pings PostgreSQL on a connection of its own, so that neither a busy pool nor an earlier unanswered ping delays it.
 * Concurrent pings share one query.
 */
export function createPing(url: string) {
  const open = () =>
    createPool(url, { max: 1, connectionTimeoutMillis: PING_TIMEOUT_MS, query_timeout: PING_TIMEOUT_MS })
  let pool: Promise<PostgresPool> | undefined
  let pending: Promise<void> | undefined
  let ended: Promise<void> | undefined

  async function ask(): Promise<void> {
    if (ended) throw new Error('the store is closed')
    pool ??= open()
    const client = await (await pool).connect()
    try {
      await client.query('select key from meta limit 1', [])
    } finally {
      client.release()
    }
  }

  async function end(): Promise<void> {
    await pending?.catch(() => {})
    await (await pool)?.end()
  }

  return {
    ping(): Promise<void> {
      pending ??= ask().finally(() => {
        pending = undefined
      })
      return pending
    },
    close(): Promise<void> {
      ended ??= end()
      return ended
    },
  }
}
