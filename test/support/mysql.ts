import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createConnection } from 'mysql2/promise'
import { freePort } from './free-port.ts'
import { installedProgram } from './programs.ts'
import { until } from './wait.ts'

/** A real MariaDB with an empty database, deleted when stopped. */
export async function startMysql() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-mysql-'))
  const data = join(folder, 'data')
  mkdirSync(data)
  const user = process.getuid?.() === 0 ? ['--user=root'] : []
  execFileSync(installedProgram('mariadb-install-db'), [
    '--no-defaults',
    `--datadir=${data}`,
    '--auth-root-authentication-method=normal',
    ...user,
  ])
  const port = await freePort()
  const server = spawn(
    installedProgram('mariadbd'),
    [
      '--no-defaults',
      `--datadir=${data}`,
      `--socket=${join(folder, 'socket')}`,
      `--port=${port}`,
      '--bind-address=127.0.0.1',
      '--skip-log-bin',
      ...user,
    ],
    { stdio: 'ignore' },
  )
  const ended = new Promise<void>(resolve => server.once('exit', () => resolve()))
  const connect = (database?: string) =>
    createConnection({ host: '127.0.0.1', port, user: 'root', ...(database && { database }) })
  const root = await until('MariaDB to start', () => connect().catch(() => undefined))
  await root.query('create database source')
  await root.query("create user reader@localhost identified by 'p@ss:word'")
  await root.query('grant select on source.* to reader@localhost')
  await root.end()
  return {
    /** For writing. */
    url: `mysql://root@127.0.0.1:${port}/source`,
    /** A user who may only read. */
    readerUrl: `mysql://reader:${encodeURIComponent('p@ss:word')}@127.0.0.1:${port}/source`,
    /** The same in the form of Go programs. */
    goUrl: `reader:p@ss:word@tcp(127.0.0.1:${port})/source?charset=utf8mb4&parseTime=true`,
    async stop() {
      server.kill('SIGTERM')
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
