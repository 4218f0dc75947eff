import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startPostgres } from './postgres.ts'
import { isAlive, until } from './process.ts'

/** A PostgreSQL with one database that a campaign kills and starts again. Its files survive: that is what a crash leaves. */
export async function startKillablePostgres(database: string) {
  const parent = mkdtempSync(join(tmpdir(), 'sluice-killable-'))
  // PostgreSQL may run as another user.
  chmodSync(parent, 0o755)
  const server = await startPostgres(join(parent, 'data'))
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  await client.query(`create database ${database}`)
  await client.end()
  const url = new URL(server.url)
  url.pathname = `/${database}`
  return {
    url: url.href,
    pid: server.pid,
    /** Ends its main process at once. The others notice it and end. */
    async kill(): Promise<void> {
      const pid = server.pid()
      process.kill(pid, 'SIGKILL')
      await until('PostgreSQL to end', () => (isAlive(pid) ? undefined : true))
    },
    /** Its processes may still end, and then it refuses to start. */
    start: () =>
      until('PostgreSQL to start', () =>
        server.start().then(
          () => true,
          () => undefined,
        ),
      ),
    async close(): Promise<void> {
      await server.stop()
      rmSync(parent, { recursive: true, force: true })
    },
  }
}
