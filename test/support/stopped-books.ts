import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startSimulator } from '../../simulator/server.ts'
import { readConfig } from '../../src/app/config.ts'
import { buildServer } from '../../src/app/gateway.ts'
import { createLog } from '../../src/app/log.ts'
import { operationsOf } from '../../src/app/operations.ts'
import { openStoreAndKeys, type StoreAndKeys } from '../../src/app/store-and-keys.ts'
import type { Report } from '../../src/cli/command.ts'
import type { Db } from '../../src/store/engine/store.ts'
import { TEST_PASSWORD_COST } from './first-start.ts'
import { createApi, type EngineName, ROOT_PASSWORD, ROOT_TOKEN } from './gateway.ts'
import { createDatabase } from './postgres.ts'
import { createResources } from './relay.ts'

/** A data directory and its store while no gateway runs on them. */
type Place = { readonly dataDir: string; readonly databaseUrl: string | undefined; remove(): Promise<void> }

const newDataDir = () => mkdtempSync(join(tmpdir(), 'sluice-stopped-'))

async function newPlace(engine: EngineName, template?: Place): Promise<Place> {
  const dataDir = newDataDir()
  const database = engine === 'postgres' ? await createDatabase(template?.databaseUrl) : undefined
  if (template) cpSync(template.dataDir, dataDir, { recursive: true })
  return {
    dataDir,
    databaseUrl: database?.url,
    async remove() {
      await database?.drop()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

const configOf = ({ dataDir, databaseUrl }: Place) => ({
  ...readConfig({
    PORT: '0',
    SLUICE_DATA: dataDir,
    SLUICE_LOG: 'silent',
    SLUICE_DRAIN_S: '1',
    SLUICE_ROOT_ACCESS_TOKEN: ROOT_TOKEN,
    SLUICE_ROOT_PASSWORD: ROOT_PASSWORD,
    ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
  }),
  passwordCost: TEST_PASSWORD_COST,
})

/** Store and keys only, as a command without a server opens them. */
async function whileOpen<T>(place: Place, work: (ground: StoreAndKeys) => Promise<T>): Promise<T> {
  const ground = await openStoreAndKeys(configOf(place))
  try {
    return await work(ground)
  } finally {
    await ground.close()
  }
}

type Running = { readonly api: ReturnType<typeof createApi> }

/** Starts a gateway there, uses its API, and stops it. */
export async function whileRunning(place: Place, work: (running: Running) => Promise<void>): Promise<void> {
  const config = configOf(place)
  const ground = await openStoreAndKeys(config)
  const server = await buildServer(config, createLog('silent'), ground)
  try {
    await work({ api: createApi(`http://127.0.0.1:${await server.listen()}`, ROOT_TOKEN) })
  } finally {
    await server.stop()
    await ground.close()
  }
}

export type Tampering = (books: { readonly db: Db; readonly dataDir: string }) => Promise<unknown>

export type TamperOptions = {
  /** Which state of the store is tampered with; the files beside it are always the final ones. */
  readonly from?: 'end' | 'middle'
  readonly verify?: Parameters<ReturnType<typeof operationsOf>['verify']>[0]
  /**
   * Done between tampering and verifying: the store is opened again, a gateway starts and stops, or serves
   * requests.
   */
  readonly between?: 'reopened' | 'restarted' | 'served'
  /** Tampers a second time after that. */
  readonly thenTamper?: Tampering
}

const USERS = 3
const REQUESTS = 4

/**
 * The ledger of a gateway that has served requests, in two states: in the middle, and at the end. Every read
 * uses a copy.
 */
export async function createStoppedBooks(engine: EngineName) {
  const simulator = await startSimulator()
  const end = await newPlace(engine)

  async function serveSome({ api }: Running, names: string): Promise<void> {
    const { must, serve, newToken } = createResources(api, simulator.url)
    const { model } = await serve('sim-plain')
    for (let user = 1; user <= USERS; user++) {
      const username = `${names}-${user}`
      const password = `password of ${username}`
      const { id } = await must(api('POST', '/api/user/', { username, password, quota: 500_000 }))
      // Other amounts with other names: two rounds within one second must not make the same records.
      const value = 1_000 * user + names.length
      await must(api('POST', '/api/user/manage', { id, action: 'add_quota', value }))
    }
    const token = await newToken({ limits: { rpm: 1_000 } })
    await newToken({ unlimited_quota: true, name: 'unlimited' })
    for (let request = 0; request < REQUESTS; request++) {
      const body = { model, messages: [{ role: 'user', content: `request ${request}` }] }
      const { status, text } = await api('POST', '/v1/chat/completions', body, { token: token.key })
      if (status !== 200) throw new Error(`a request failed: ${text}`)
    }
    await must(api('PUT', '/api/setting/', { attempts: USERS + names.length }))
  }

  await whileRunning(end, running => serveSome(running, 'early'))
  const middle = await newPlace(engine, end)
  await whileRunning(end, running => serveSome(running, 'late'))
  const spare = newDataDir()

  /** The store of one state beside the final files. */
  async function copyOf(from: 'end' | 'middle'): Promise<Place> {
    const copy = await newPlace(engine, from === 'end' ? end : middle)
    if (from === 'middle')
      for (const name of ['nodes', 'anchors.log'])
        cpSync(join(end.dataDir, name), join(copy.dataDir, name), { recursive: true, force: true })
    return copy
  }

  return {
    engine,
    /** A directory for what a test keeps elsewhere. */
    spare,
    /** What verify reports for a copy that was tampered with. */
    async verifyAfter(tamper: Tampering, options: TamperOptions = {}): Promise<Report> {
      const { from = 'end', verify = {}, between, thenTamper } = options
      const copy = await copyOf(from)
      const by = (tampering: Tampering) => async (ground: StoreAndKeys) => {
        await tampering({ db: ground.store.db, dataDir: copy.dataDir })
      }
      const examine = (ground: StoreAndKeys) => operationsOf(configOf(copy), ground).verify(verify)
      try {
        if (between === undefined)
          return await whileOpen(copy, async ground => {
            await by(tamper)(ground)
            return examine(ground)
          })
        await whileOpen(copy, by(tamper))
        if (between === 'restarted') await whileRunning(copy, async () => {})
        if (between === 'served') await whileRunning(copy, running => serveSome(running, 'again'))
        return await whileOpen(copy, async ground => {
          if (thenTamper) await by(thenTamper)(ground)
          return examine(ground)
        })
      } finally {
        await copy.remove()
      }
    },
    async close(): Promise<void> {
      await simulator.close()
      await end.remove()
      await middle.remove()
      rmSync(spare, { recursive: true, force: true })
    },
  }
}

export type StoppedBooks = Awaited<ReturnType<typeof createStoppedBooks>>
