import { createDatabase } from './postgres.ts'
import { type Env, newDirectory, type Server, startServer } from './process.ts'
import { startProxy } from './proxy.ts'
import { until, WAIT_MS } from './wait.ts'

/** A start waits for PostgreSQL, which may be starting, too, and fails after a minute. */
const RESTART_MS = 3 * WAIT_MS

/** On a busy machine heartbeats, one a second, are late. They must not be so late that a healthy node is fenced. */
export const FENCE = { SLUICE_FENCE_S: '30' } as const
/** For tests that wait for the fence of a node that they kill or cut off: others notice it after 20 s, and a change waits for 25 s. */
export const SHORT_FENCE = { SLUICE_FENCE_S: '15' } as const

export const SECRET = 'a master secret that all nodes of a test have'

/** A gateway process with its own data directory, and a proxy before the shared database. */
export type FleetMember = {
  readonly server: Server
  readonly dataDir: string
  readonly proxy: Awaited<ReturnType<typeof startProxy>>
}

type FleetDatabase = { readonly url: string; drop(): Promise<void> }

/** Several gateways as separate processes on one PostgreSQL database. */
export async function startFleet(count: number, env: Env = {}, ownDatabase?: FleetDatabase) {
  const database = ownDatabase ?? (await createDatabase())
  const members: FleetMember[] = []
  const proxies: FleetMember['proxy'][] = []

  async function startOn(
    proxy: FleetMember['proxy'],
    dataDir: string,
    more: Env,
  ): Promise<FleetMember['server']> {
    const databaseUrl = new URL(database.url)
    databaseUrl.port = String(proxy.port)
    return startServer({
      dataDir,
      databaseUrl: databaseUrl.href,
      env: { SLUICE_SECRET: SECRET, SLUICE_DRAIN_S: '2', ...env, ...more },
    })
  }

  async function startMember(dataDir = newDirectory(), more: Env = {}): Promise<FleetMember> {
    const proxy = await startProxy(new URL(database.url))
    proxies.push(proxy)
    const member = { server: await startOn(proxy, dataDir, more), dataDir, proxy }
    members.push(member)
    return member
  }

  /** Starts a member again that has ended, as a service manager does: also if a start fails. */
  async function restartMember(index: number): Promise<void> {
    const { dataDir, proxy, server } = members[index] as FleetMember
    let failure: unknown
    const tryToStart = () =>
      startOn(proxy, dataDir, { PORT: String(server.port) }).catch(error => {
        failure = error
        return undefined
      })
    const restarted = await until('a gateway to start again', tryToStart, RESTART_MS).catch(error => {
      throw new Error(error.message, { cause: failure })
    })
    members[index] = { dataDir, proxy, server: restarted }
  }

  async function close(): Promise<void> {
    for (const proxy of proxies) proxy.set('pass')
    await Promise.all(members.filter(({ server }) => server.isRunning()).map(({ server }) => server.stop()))
    for (const proxy of proxies) proxy.close()
    await database.drop()
  }

  try {
    // The first start creates root.
    for (let i = 0; i < count; i++) await startMember()
  } catch (error) {
    await close()
    throw error
  }
  return { members, startMember, restartMember, databaseUrl: database.url, close }
}

export type TestFleet = Awaited<ReturnType<typeof startFleet>>
