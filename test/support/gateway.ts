import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe } from 'node:test'
import type { Logger } from 'pino'
import { startSimulator } from '../../simulator/server.ts'
import { readConfig } from '../../src/app/config.ts'
import { buildServer } from '../../src/app/gateway.ts'
import { createLog } from '../../src/app/log.ts'
import { operationsOf } from '../../src/app/operations.ts'
import { openStoreAndKeys } from '../../src/app/store-and-keys.ts'
import type { PasswordCost } from '../../src/identity/passwords.ts'
import { type RetryOptions, retryingFetch } from './client.ts'
import type { EngineName } from './engines.ts'
import { newStore, ROOT_TOKEN, TEST_PASSWORD_COST } from './first-start.ts'
import { stopOwnPostgres } from './postgres.ts'

export { ENGINES, type EngineName, oneEngine } from './engines.ts'
export { ROOT_PASSWORD, ROOT_TOKEN } from './first-start.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests check responses field by field
type Json = any
export type Reply = {
  readonly status: number
  readonly body: Json
  readonly headers: Headers
  readonly text: string
}
export type Asking = {
  /** Another credential than root's; null for none. */
  readonly token?: string | null
  readonly headers?: Readonly<Record<string, string>>
  /** Sent unchanged instead of a JSON body. */
  readonly raw?: string | Uint8Array
} & RetryOptions

/** Calls a running gateway over HTTP, as its clients do. */
export const createApi =
  (url: string, rootToken: string) =>
  async (
    method: string,
    path: string,
    body?: unknown,
    { token = rootToken, headers, raw, expectedRefusal }: Asking = {},
  ): Promise<Reply> => {
    const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body))
    const init = {
      method,
      redirect: 'manual',
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(payload === undefined ? {} : { body: payload as never }),
    } as const
    const response = await retryingFetch(`${url}${path}`, init, { expectedRefusal })
    const text = await response.text()
    const isJson = /\bjson\b/.test(response.headers.get('content-type') ?? '')
    return {
      status: response.status,
      text,
      body: isJson ? JSON.parse(text) : undefined,
      headers: response.headers,
    }
  }

export type Api = ReturnType<typeof createApi>
/** Suites about HTTP run over both servers: `http1` with node:http behind it, and node:http alone. */
export const HTTP_SERVERS = ['http1', 'node'] as const
export type HttpServerName = (typeof HTTP_SERVERS)[number]

/** A suite that runs over both. */
export function describeOverServers(name: string, suite: (http: HttpServerName) => void): void {
  for (const http of HTTP_SERVERS) describe(`${name}, over ${http}`, () => suite(http))
}

export type GatewayOptions = {
  readonly engine: EngineName
  readonly env?: Readonly<Record<string, string>>
  readonly http?: HttpServerName
  readonly passwordCost?: PasswordCost
  /** A log that the test reads; the one of the settings if absent. */
  readonly log?: Logger
}

/** A complete gateway in this process, with its own store. */
export async function startGateway(options: GatewayOptions) {
  const { engine, env = {}, http = 'http1', passwordCost = TEST_PASSWORD_COST } = options
  const dataDir = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  const { database, settings } = await newStore(engine, dataDir, env)
  const read = readConfig({ PORT: '0', SLUICE_LOG: 'silent', SLUICE_DRAIN_S: '1', ...settings, ...env })
  const config = { ...read, usesHttp1: http === 'http1', passwordCost }
  const removeStore = async () => {
    await database?.drop()
    rmSync(dataDir, { recursive: true, force: true })
  }
  /** What a failed start has opened is closed, in the reverse order. */
  const releases: (() => Promise<unknown>)[] = [removeStore]
  const attempt = async <T>(step: Promise<T>): Promise<T> => {
    try {
      return await step
    } catch (error) {
      for (const release of releases.toReversed()) await release()
      throw error
    }
  }
  const ground = await attempt(openStoreAndKeys(config))
  releases.push(ground.close)
  const server = await attempt(buildServer(config, options.log ?? createLog(config.logLevel), ground))
  releases.push(server.stop)
  const port = await attempt(server.listen())
  const url = `http://127.0.0.1:${port}${config.basePath}`
  const api = createApi(url, config.rootAccessToken ?? ROOT_TOKEN)
  const closing: (() => Promise<void>)[] = []
  let users = 0

  return {
    url,
    api,
    dataDir,
    db: ground.store.db,
    store: ground.store,
    keyring: ground.keyring,
    bodySeal: ground.bodySeal,
    operations: operationsOf(config, ground, server),
    startDraining: server.startDraining,
    /** A user with a system access token. */
    async createUser(fields: { username?: string; role?: 1 | 10; quota?: number } = {}) {
      const username = fields.username ?? `user-${++users}`
      const password = `password of ${username}`
      const created = await api('POST', '/api/user/', { ...fields, username, password })
      if (created.status !== 200) throw new Error(`user not made: ${created.text}`)
      const { token } = await operationsOf(config, ground).accessToken({ username, name: 'test' })
      return { id: created.body.data.id as number, username, password, accessToken: token }
    },
    async simulator() {
      const simulator = await startSimulator()
      closing.push(simulator.close)
      return simulator
    },
    async close(): Promise<void> {
      await server.stop()
      await ground.close()
      for (const close of closing) await close()
      await removeStore()
    },
  }
}

export type Gateway = Awaited<ReturnType<typeof startGateway>>

/**
 * Opens a resource before the tests of the suite that calls this, and closes it after them. The returned object is empty
 * until then, so its members must not be read while the suite is declared.
 */
export function suiteResource<Resource extends object>(
  open: () => Promise<Resource>,
  close: (resource: Resource) => Promise<void>,
): Resource {
  const resource = {} as Resource
  before(async () => {
    Object.assign(resource, await open())
  })
  after(() => close(resource))
  return resource
}

/** The gateway of a suite. */
export const suiteGateway = (options: GatewayOptions): Gateway =>
  suiteResource(
    () => startGateway(options),
    gateway => gateway.close(),
  )

// Runs after everything else in the file: a server that this file had to start ends with it.
after(stopOwnPostgres)
