import type { PostgresPool, PostgresPoolClient } from 'kysely'
import type { PoolClient, PoolConfig } from 'pg'
import { UnreachableError } from '../../domain/errors.ts'

const STATEMENT_TIMEOUT_MS = 30_000
/** Longer than PostgreSQL's own timeout: it ends queries only if the server does not respond at all. */
const QUERY_TIMEOUT_MS = 35_000
const CONNECT_TIMEOUT_MS = 10_000
const PING_TIMEOUT_MS = 3_000

/** Amounts and ids stay below 2^53 (docs/reference/money.md: Units), so a bigint is read as a number. */
const INT8_OID = 20
const NUMERIC_OID = 1700

/**
 * Error codes (PostgreSQL, appendix A) that concern the server and not the statement: a broken connection, a shutdown, too
 * many connections, a server that is read-only after a failover, a statement timeout.
 */
const CONNECTION_CODES = /^(08...|57P0.|57014|53300|25006|25P03)$/

/** Errors of the server have a severity, and bugs of ours a subclass of Error: the rest are connection errors of the driver. */
function isConnectionError(error: Error & { code?: unknown; severity?: unknown }): boolean {
  if (error.severity !== undefined) return CONNECTION_CODES.test(String(error.code))
  return Object.getPrototypeOf(error) === Error.prototype || error instanceof AggregateError
}

/** A host name with several addresses fails once for each. */
const firstErrorOf = (error: Error): Error =>
  error instanceof AggregateError && error.errors[0] instanceof Error ? error.errors[0] : error

const isCommit = (statement: string) => statement === 'commit'

/** A connection that fails fast after a connection error, and is then not returned to the pool for reuse. */
function watchedClient(client: PoolClient): PostgresPoolClient {
  let failure: UnreachableError | undefined
  async function query(statement: string, parameters: readonly unknown[]) {
    if (failure) throw failure
    try {
      return await client.query(statement, parameters as unknown[])
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

/** The driver is loaded with the first query: a gateway on SQLite never needs it. */
async function createPool(url: string, options: PoolConfig): Promise<PostgresPool> {
  const { default: pg } = await import('pg')
  const types = {
    getTypeParser: (oid: number, format?: 'text' | 'binary') =>
      oid === INT8_OID || oid === NUMERIC_OID ? Number : pg.types.getTypeParser(oid, format as 'text'),
  }
  const pool = new pg.Pool({
    connectionString: url,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    idle_in_transaction_session_timeout: STATEMENT_TIMEOUT_MS,
    keepAlive: true,
    types: types as NonNullable<PoolConfig['types']>,
    ...options,
  })
  // The pool replaces an idle connection that breaks; the next query reports an unreachable database.
  pool.on('error', () => {})
  // A checked-out connection that breaks between two queries fails the next one; without a listener the error would end the
  // process.
  pool.on('connect', client => client.on('error', () => {}))
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      try {
        return watchedClient(await pool.connect())
      } catch (error) {
        throw new UnreachableError(firstErrorOf(error as Error))
      }
    },
  }
}

export const openPool = (url: string, maxConnections: number) =>
  createPool(url, {
    max: maxConnections,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
  })

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
