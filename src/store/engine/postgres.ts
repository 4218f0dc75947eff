import type { PostgresPool, PostgresPoolClient } from 'kysely'
import type { PoolClient, PoolConfig } from 'pg'
import { UnreachableError } from '../../domain/errors.ts'

const STATEMENT_TIMEOUT_MS = 30_000
/** Later than PostgreSQL's own: only one that does not answer at all runs into it. */
const SILENCE_MS = 35_000
const CONNECT_TIMEOUT_MS = 10_000
const PING_TIMEOUT_MS = 3_000

/** Amounts and ids stay below 2^53 (docs/reference/money.md: Units), so a bigint is read as a number. */
const INT8_OID = 20
const NUMERIC_OID = 1700

/**
 * What PostgreSQL says when it, and not the statement, is the trouble (its appendix A): a connection that broke, an
 * operator who stops it, no room for one more, a server that a failover left to be read only, a statement that took too long.
 */
const TROUBLE = /^(08...|57P0.|57014|53300|25006|25P03)$/

/** Its other errors have a code, and faults of ours a class: what is left is what the driver says of a connection. */
function isOfConnection(error: Error & { code?: unknown; severity?: unknown }): boolean {
  if (error.severity !== undefined) return TROUBLE.test(String(error.code))
  return Object.getPrototypeOf(error) === Error.prototype || error instanceof AggregateError
}

/** A name with several addresses fails once for each. */
const told = (error: Error): Error =>
  error instanceof AggregateError && error.errors[0] instanceof Error ? error.errors[0] : error

const isCommit = (statement: string) => statement === 'commit'

/** A connection in somebody's hands. One that was asked in vain is not given to the next, nor asked to undo anything. */
function watched(client: PoolClient): PostgresPoolClient {
  let trouble: UnreachableError | undefined
  async function query(statement: string, parameters: readonly unknown[]) {
    if (trouble) throw trouble
    try {
      return await client.query(statement, parameters as unknown[])
    } catch (error) {
      if (!(error instanceof Error) || !isOfConnection(error)) throw error
      trouble = new UnreachableError(told(error), { isInDoubt: isCommit(statement) })
      throw trouble
    }
  }
  return {
    query: query as never,
    release: isBroken => client.release(isBroken || trouble !== undefined),
  }
}

/** The driver is loaded with the first question: a gateway on the embedded database never needs it. */
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
  // An idle connection that breaks is replaced by the pool; the next query tells if the database is gone.
  pool.on('error', () => {})
  // One that breaks in somebody's hands, between two queries, fails the next one; unheard it would end the process.
  pool.on('connect', client => client.on('error', () => {}))
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      try {
        return watched(await pool.connect())
      } catch (error) {
        throw new UnreachableError(told(error as Error))
      }
    },
  }
}

export const openPool = (url: string, maxConnections: number) =>
  createPool(url, {
    max: maxConnections,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: SILENCE_MS,
  })

/**
 * Asks whether PostgreSQL lives, on a connection of its own: neither work that holds all the others nor an earlier
 * question that nobody answered stands in its way. Whoever asks meanwhile hears the same answer.
 */
export function createPing(url: string) {
  const open = () =>
    createPool(url, { max: 1, connectionTimeoutMillis: PING_TIMEOUT_MS, query_timeout: PING_TIMEOUT_MS })
  let pool: Promise<PostgresPool> | undefined
  let asking: Promise<void> | undefined
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
    await asking?.catch(() => {})
    await (await pool)?.end()
  }

  return {
    ping(): Promise<void> {
      asking ??= ask().finally(() => {
        asking = undefined
      })
      return asking
    },
    close(): Promise<void> {
      ended ??= end()
      return ended
    },
  }
}
