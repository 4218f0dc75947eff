import type { SourceRow } from '../values.ts'
import { pageStatement, type SourceDatabase, SourceError } from './database.ts'

const CONNECT_MS = 10_000
const STATEMENT_MS = 60_000

const quote = (name: string) => `"${name.replaceAll('"', '""')}"`
const DIALECT = { quote, bytes: (column: string) => `octet_length(${column}::text)`, parameter: '$1' }

/** A time without a zone. Programs store UTC in it; the driver would read it in the zone of this machine. */
const TIMESTAMP_OID = 1114

/** Reads a PostgreSQL database from one snapshot, in a transaction that cannot write. */
export async function openPostgresSource(url: string): Promise<SourceDatabase> {
  const { default: pg } = await import('pg')
  const types = {
    getTypeParser: (oid: number, format?: 'text' | 'binary') =>
      oid === TIMESTAMP_OID
        ? (text: string) => `${text.replace(' ', 'T')}Z`
        : pg.types.getTypeParser(oid, format as 'text'),
  }
  const client = new pg.Client({
    types: types as never,
    connectionString: url,
    connectionTimeoutMillis: CONNECT_MS,
    statement_timeout: STATEMENT_MS,
    query_timeout: STATEMENT_MS,
    application_name: 'sluice import',
  })
  // A connection that breaks fails the next statement, which reports it.
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query('begin isolation level repeatable read read only')
  } catch (error) {
    await client.end().catch(() => {})
    throw new SourceError(`the PostgreSQL database cannot be read: ${(error as Error).message}`)
  }
  const run = async (statement: string, values: unknown[]): Promise<SourceRow[]> => {
    try {
      return (await client.query(statement, values)).rows as SourceRow[]
    } catch (error) {
      throw new SourceError(`the PostgreSQL database cannot be read: ${(error as Error).message}`)
    }
  }
  return {
    engine: 'postgres',
    async columnsOf(table) {
      const rows = await run(
        `select a.attname as name from pg_attribute a
         where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped`,
        [quote(table)],
      )
      return new Set(rows.map(({ name }) => String(name)))
    },
    read: range => run(pageStatement(DIALECT, range), range.after === undefined ? [] : [range.after]),
    async close() {
      await client.end().catch(() => {})
    },
  }
}
