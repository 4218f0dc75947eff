import type { SourceRow } from '../values.ts'
import { pageStatement, type SourceDatabase, SourceError } from './database.ts'

const CONNECT_MS = 10_000
const STATEMENT_MS = 60_000

const quote = (name: string) => `\`${name.replaceAll('`', '``')}\``
const DIALECT = { quote, bytes: (column: string) => `octet_length(${column})`, parameter: '?' }

type Address = {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
  readonly database: string
  readonly tls: 'no' | 'verified' | 'unverified'
}

/** The form of Go programs: `user:password@tcp(host:3306)/database?charset=utf8mb4`. */
const GO_FORM = /^([^:@/]*):(.*)@tcp\(([^():]+)(?::(\d+))?\)\/([^?]+)(?:\?(.*))?$/s
const DEFAULT_PORT = 3306

const TLS: Readonly<Record<string, Address['tls']>> = {
  true: 'verified',
  'skip-verify': 'unverified',
  preferred: 'no',
  false: 'no',
}

/** Reads the address of a MySQL database; undefined if the text is none. */
export function readMysqlAddress(text: string): Address | undefined {
  const go = GO_FORM.exec(text)
  if (go) {
    const [, user = '', password = '', host = '', port, database = '', query = ''] = go
    const tls = TLS[new URLSearchParams(query).get('tls') ?? 'false'] ?? 'verified'
    return { host, port: Number(port ?? DEFAULT_PORT), user, password, database, tls }
  }
  if (!/^(mysql|mariadb):\/\//i.test(text) || !URL.canParse(text)) return undefined
  const url = new URL(text)
  try {
    return {
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: Number(url.port || DEFAULT_PORT),
      user: decodeURIComponent(url.username),
      password: decodeURIComponent(url.password),
      database: decodeURIComponent(url.pathname.slice(1)),
      tls: TLS[url.searchParams.get('tls') ?? 'false'] ?? 'verified',
    }
  } catch {
    // A percent sign that begins no escape.
    return undefined
  }
}

/** Reads a MySQL or MariaDB database from one snapshot, in a transaction that cannot write. */
export async function openMysqlSource({ tls, ...address }: Address): Promise<SourceDatabase> {
  const { createConnection } = await import('mysql2/promise')
  const failed = (error: unknown) =>
    new SourceError(`the MySQL database cannot be read: ${(error as Error).message}`)
  const connection = await createConnection({
    ...address,
    ...(tls === 'no' ? {} : { ssl: { rejectUnauthorized: tls === 'verified' } }),
    connectTimeout: CONNECT_MS,
    charset: 'utf8mb4',
    // Integers beyond 2^53 and times stay exact as texts; JSON is parsed by its reader.
    supportBigNumbers: true,
    bigNumberStrings: true,
    dateStrings: true,
    jsonStrings: true,
  }).catch(error => {
    throw failed(error)
  })
  // A connection that breaks fails the next statement, which reports it.
  connection.on('error', () => {})
  const run = async (statement: string, values: readonly unknown[]): Promise<SourceRow[]> => {
    try {
      const [rows] = await connection.query({ sql: statement, timeout: STATEMENT_MS }, values as never)
      return rows as SourceRow[]
    } catch (error) {
      throw failed(error)
    }
  }
  try {
    await run('set session transaction isolation level repeatable read', [])
    await run('start transaction with consistent snapshot, read only', [])
  } catch (error) {
    connection.destroy()
    throw error
  }
  return {
    engine: 'mysql',
    async columnsOf(table) {
      const rows = await run(
        'select column_name as name from information_schema.columns where table_schema = database() and table_name = ?',
        [table],
      )
      return new Set(rows.map(({ name }) => String(name)))
    },
    read: range => run(pageStatement(DIALECT, range), range.after === undefined ? [] : [range.after]),
    async close() {
      await connection.end().catch(() => connection.destroy())
    },
  }
}
