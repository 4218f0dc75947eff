import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'

/** Databases of other gateways, made with the schemas that the programs write. */

type Kind = 'id' | 'int' | 'text' | 'bool' | 'json' | 'time' | 'char48' | 'float'
export type TableSchema = Readonly<Record<string, Kind>>
export type SourceEngine = 'sqlite' | 'postgres' | 'mysql'
type Value = string | number | bigint | boolean | null | Uint8Array
export type SourceRows = readonly Readonly<Record<string, Value>>[]

const TYPES: Readonly<Record<SourceEngine, Readonly<Record<Kind, string>>>> = {
  sqlite: {
    id: 'integer primary key autoincrement',
    int: 'integer',
    text: 'text',
    bool: 'numeric',
    json: 'json',
    time: 'datetime',
    char48: 'char(48)',
    float: 'real',
  },
  postgres: {
    id: 'bigserial primary key',
    int: 'bigint',
    text: 'text',
    bool: 'boolean',
    json: 'json',
    time: 'timestamptz',
    char48: 'char(48)',
    float: 'numeric',
  },
  mysql: {
    id: 'bigint auto_increment primary key',
    int: 'bigint',
    text: 'longtext',
    bool: 'tinyint(1)',
    json: 'json',
    time: 'datetime(3)',
    char48: 'char(48)',
    float: 'double',
  },
}

const quote = (engine: SourceEngine, name: string) => (engine === 'mysql' ? `\`${name}\`` : `"${name}"`)

const createStatement = (engine: SourceEngine, table: string, schema: TableSchema) =>
  `create table ${quote(engine, table)} (${Object.entries(schema)
    .map(([name, kind]) => `${quote(engine, name)} ${TYPES[engine][kind]}`)
    .join(', ')})`

export type SourceDatabaseWriter = {
  create(table: string, schema: TableSchema): Promise<void>
  insert(table: string, rows: SourceRows): Promise<void>
  run(statement: string): Promise<void>
  close(): Promise<void>
}

export function writeSqlite(path: string): SourceDatabaseWriter {
  const db = new DatabaseSync(path)
  db.exec('pragma journal_mode = delete')
  return {
    async create(table, schema) {
      db.exec(createStatement('sqlite', table, schema))
    },
    async insert(table, rows) {
      db.exec('begin')
      for (const row of rows) {
        const names = Object.keys(row)
        db.prepare(
          `insert into "${table}" (${names.map(name => `"${name}"`).join()}) values (${names.map(() => '?').join()})`,
        ).run(...Object.values(row).map(value => (typeof value === 'boolean' ? Number(value) : value)))
      }
      db.exec('commit')
    },
    async run(statement) {
      db.exec(statement)
    },
    async close() {
      db.close()
    },
  }
}

export async function writePostgres(url: string): Promise<SourceDatabaseWriter> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return {
    create: async (table, schema) => void (await client.query(createStatement('postgres', table, schema))),
    async insert(table, rows) {
      for (const row of rows) {
        const names = Object.keys(row)
        await client.query(
          `insert into "${table}" (${names.map(name => `"${name}"`).join()}) values (${names.map((_, index) => `$${index + 1}`).join()})`,
          Object.values(row).map(value =>
            value instanceof Uint8Array ? Buffer.from(value).toString() : value,
          ),
        )
      }
    },
    run: async statement => void (await client.query(statement)),
    close: () => client.end(),
  }
}

export async function writeMysql(url: string): Promise<SourceDatabaseWriter> {
  const { createConnection } = await import('mysql2/promise')
  const connection = await createConnection(url)
  return {
    create: async (table, schema) => void (await connection.query(createStatement('mysql', table, schema))),
    async insert(table, rows) {
      for (const row of rows) {
        const names = Object.keys(row)
        await connection.query(
          `insert into \`${table}\` (${names.map(name => `\`${name}\``).join()}) values (${names.map(() => '?').join()})`,
          Object.values(row).map(value =>
            value instanceof Uint8Array ? Buffer.from(value).toString() : value,
          ) as never,
        )
      }
    },
    run: async statement => void (await connection.query(statement)),
    close: () => connection.end(),
  }
}
