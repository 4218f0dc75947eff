import { execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePort } from './free-port.ts'
import { query } from './postgres-pair.ts'
import { childrenOf, isAlive } from './process.ts'
import { installedProgram } from './programs.ts'
import { until, WAIT_MS } from './wait.ts'

const PASSWORD = 'sluice-test'
const DATABASE = 'sluice'
const START_MS = 2 * WAIT_MS
/** PostgreSQL refuses to run as root. */
function ownerOf(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const idOf = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  return { uid: idOf('-u'), gid: idOf('-g') }
}

type Member = {
  readonly name: string
  readonly port: number
  readonly restPort: number
  readonly folder: string
  readonly config: string
}
type ClusterState = { members?: { name: string; role: string; state: string; timeline?: number }[] }

const isStanding = ({ role, state }: { role: string; state: string }) =>
  role !== 'leader' && (state === 'running' || state === 'streaming')

/** Three PostgreSQL servers under Patroni, with one etcd. A machine of it dies with its Patroni. */
export async function startPatroni({ isSynchronous }: { isSynchronous: boolean }) {
  const parent = mkdtempSync(join(tmpdir(), 'sluice-patroni-'))
  const owner = ownerOf()
  chmodSync(parent, 0o755)
  const own = (path: string) => owner && chownSync(path, owner.uid, owner.gid)
  own(parent)
  const [clientPort, peerPort] = [await freePort(), await freePort()]
  const etcd = spawn(
    installedProgram('etcd'),
    [
      '--data-dir',
      join(parent, 'etcd'),
      '--listen-client-urls',
      `http://127.0.0.1:${clientPort}`,
      '--advertise-client-urls',
      `http://127.0.0.1:${clientPort}`,
      '--listen-peer-urls',
      `http://127.0.0.1:${peerPort}`,
      '--initial-advertise-peer-urls',
      `http://127.0.0.1:${peerPort}`,
      '--initial-cluster',
      `default=http://127.0.0.1:${peerPort}`,
      '--unsafe-no-fsync',
    ],
    { stdio: 'ignore', ...owner },
  )
  const scope = `sluice-${randomUUID().slice(0, 8)}`

  function writeConfig(name: string, port: number, restPort: number): Member {
    const folder = join(parent, name)
    mkdirSync(folder, { mode: 0o700 })
    own(folder)
    const config = join(folder, 'patroni.json')
    const user = (username: string) => ({ username, password: PASSWORD })
    // YAML is a superset of JSON.
    writeFileSync(
      config,
      JSON.stringify({
        scope,
        name,
        restapi: { listen: `127.0.0.1:${restPort}`, connect_address: `127.0.0.1:${restPort}` },
        etcd3: { host: `127.0.0.1:${clientPort}` },
        bootstrap: {
          dcs: {
            ttl: 6,
            loop_wait: 1,
            retry_timeout: 2,
            maximum_lag_on_failover: 100_000_000,
            primary_start_timeout: 0,
            synchronous_mode: isSynchronous,
            postgresql: { use_pg_rewind: true, parameters: { max_connections: 200, wal_keep_size: '256MB' } },
          },
          initdb: [{ encoding: 'UTF8' }, 'data-checksums'],
        },
        postgresql: {
          listen: `127.0.0.1:${port}`,
          connect_address: `127.0.0.1:${port}`,
          data_dir: join(folder, 'data'),
          bin_dir: dirname(installedProgram('postgres')),
          pgpass: join(folder, 'pgpass'),
          authentication: {
            superuser: user('postgres'),
            replication: user('replicator'),
            rewind: user('rewinder'),
          },
          pg_hba: [
            'host all all 127.0.0.1/32 md5',
            'host replication all 127.0.0.1/32 md5',
            'local all all trust',
          ],
          parameters: { unix_socket_directories: folder, fsync: false, shared_buffers: '64MB' },
        },
      }),
    )
    own(config)
    return { name, port, restPort, folder, config }
  }

  const members: Member[] = []
  for (const name of ['one', 'two', 'three'])
    members.push(writeConfig(name, await freePort(), await freePort()))
  const running = new Map<string, ReturnType<typeof spawn>>()
  function start({ name, config, folder }: Member): void {
    const patroni = spawn(installedProgram('patroni'), [config], {
      stdio: 'ignore',
      cwd: folder,
      env: { PATH: process.env.PATH ?? '', LC_ALL: 'C.UTF-8', HOME: folder },
      ...owner,
    })
    running.set(name, patroni)
  }
  const urlOf = (port: number, database: string) =>
    `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/${database}`

  async function stateOf(): Promise<ClusterState> {
    for (const { restPort } of members)
      try {
        const response = await fetch(`http://127.0.0.1:${restPort}/cluster`, {
          signal: AbortSignal.timeout(2_000),
        })
        return (await response.json()) as ClusterState
      } catch {
        // That machine is down.
      }
    return {}
  }
  /** The primary, once it runs, both standbys follow, and one of them is synchronous if one shall be. */
  const whole = (isSync: boolean) =>
    until(
      'a primary with two standbys',
      async () => {
        const { members: rows = [] } = await stateOf()
        const leader = rows.find(({ role, state }) => role === 'leader' && state === 'running')
        const standbys = rows.filter(isStanding).filter(({ timeline }) => timeline === leader?.timeline)
        const isReady = !isSync || standbys.some(({ role }) => role === 'sync_standby')
        return leader && standbys.length === 2 && isReady
          ? members.find(({ name }) => name === leader.name)
          : undefined
      },
      START_MS,
    )

  const queryAt = (port: number, database: string, statement: string) =>
    query(urlOf(port, database), statement)

  async function close(): Promise<void> {
    for (const patroni of running.values())
      if (patroni.exitCode === null && patroni.signalCode === null) {
        patroni.kill('SIGTERM')
        await once(patroni, 'exit')
      }
    etcd.kill('SIGKILL')
    await once(etcd, 'exit')
    rmSync(parent, { recursive: true, force: true })
  }

  const [first] = members as [Member, ...Member[]]
  try {
    start(first)
    await until(
      'the first primary',
      async () => {
        const { members: rows = [] } = await stateOf()
        return rows.some(({ role, state }) => role === 'leader' && state === 'running') ? true : undefined
      },
      START_MS,
    )
    await queryAt(first.port, 'postgres', `create database ${DATABASE}`)
    for (const member of members.slice(1)) start(member)
    await whole(isSynchronous)
  } catch (error) {
    await close()
    throw error
  }

  return {
    /** A URL with all hosts. */
    url: `postgres://postgres:${PASSWORD}@${members.map(({ port }) => `127.0.0.1:${port}`).join(',')}/${DATABASE}?target_session_attrs=read-write`,
    whole,
    /** Kills the machine of the primary. With `lagMs`, its standbys receive nothing for this long before. */
    async killPrimary({ lagMs = 0 } = {}): Promise<Member> {
      const primary = await whole(false)
      const postmaster = Number(
        readFileSync(join(primary.folder, 'data', 'postmaster.pid'), 'utf8').split('\n')[0],
      )
      if (lagMs > 0) {
        for (const { pid } of await queryAt(primary.port, 'postgres', 'select pid from pg_stat_replication'))
          process.kill(Number(pid), 'SIGSTOP')
        await new Promise(resolve => setTimeout(resolve, lagMs))
      }
      const patroni = running.get(primary.name)
      patroni?.kill('SIGKILL')
      const pids = [postmaster, ...childrenOf(postmaster)]
      for (const pid of pids) if (isAlive(pid)) process.kill(pid, 'SIGKILL')
      await until('the primary to end', () => (pids.some(isAlive) ? undefined : true))
      return primary
    },
    /** Resolves when another machine is the primary. */
    untilFailover: (previous: Member) =>
      until(
        'another primary',
        async () => {
          const { members: rows = [] } = await stateOf()
          const leader = rows.find(({ role, state }) => role === 'leader' && state === 'running')
          return leader && leader.name !== previous.name ? true : undefined
        },
        START_MS,
      ),
    start,
    async setSynchronous(synchronous_mode: boolean): Promise<void> {
      const primary = await whole(false)
      const response = await fetch(`http://127.0.0.1:${primary.restPort}/config`, {
        method: 'PATCH',
        body: JSON.stringify({ synchronous_mode }),
      })
      if (!response.ok) throw new Error(`Patroni refused the change: ${await response.text()}`)
      await until('the mode of replication', async () => {
        const [row] = await queryAt(primary.port, 'postgres', 'show synchronous_standby_names')
        return (row?.synchronous_standby_names !== '') === synchronous_mode ? true : undefined
      })
    },
    close,
  }
}
