import { existsSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { createOperations } from '../cli/operations.ts'
import { createConsoleBuilds } from '../host/console-files.ts'
import { makeDirectory } from '../host/directory.ts'
import { sweepLeftovers } from '../host/leftovers.ts'
import { DirectoryInUseError, lockDirectory } from '../host/lock.ts'
import { processLimits, readMachine } from '../host/machine.ts'
import { version } from '../host/version.ts'
import { createClientAddress } from '../http/address.ts'
import { createAddressGuard } from '../http/address-guard.ts'
import { createConnectionLimit } from '../http/connection-limit.ts'
import { createProxyReports, type ProxyReports } from '../http/exposure.ts'
import { createOutboundClient } from '../http/outbound.ts'
import { createHttpServer, drain, listen, listenBeside } from '../http/server.ts'
import { createIdentify, SESSION_ABSOLUTE_S } from '../identity/identify.ts'
import { createPasswords } from '../identity/passwords.ts'
import { newSecret, readSecretFile, writeSecretFile } from '../identity/secret-file.ts'
import { createThrottle, type Throttle } from '../identity/throttle.ts'
import { createSessionUser } from '../manage/people/session-user.ts'
import { createManageApp } from '../manage/server/app.ts'
import { NewerStoreError, openStore, type Store, type StoreOptions } from '../store/engine/store.ts'
import { findAccessToken, touchAccessToken } from '../store/records/access-tokens.ts'
import { findSession, touchSession } from '../store/records/sessions.ts'
import { findUser } from '../store/records/users.ts'
import { createFolding } from '../store/usage/folds.ts'
import { createRetention } from '../store/usage/retention.ts'
import { alone, type Peers } from '../workers/peers.ts'
import { firstStart, keyringOf, openChainKey, openDigest, sealPlainHeaders } from './bootstrap.ts'
import { type Config, readKeyring, SettingError } from './config.ts'
import { isPublicWithoutTls, warnOfProxy } from './exposure.ts'
import { assignNodes } from './nodes.ts'
import { buildRelay } from './relay.ts'

const now = () => Math.floor(Date.now() / 1000)
const RETENTION_PAUSE_MS = 50
const FOLDING_PAUSE_MS = 20

const storeOptions = ({ databaseUrl, dataDir, durability, workers }: Config): StoreOptions =>
  databaseUrl === undefined
    ? { engine: 'sqlite', path: join(dataDir, 'sluice.db'), fullSync: durability === 'full' }
    : { engine: 'postgres', url: databaseUrl, maxConnections: workers > 1 ? 6 : 10 }

function takeDirectory(dataDir: string) {
  try {
    makeDirectory(dataDir)
    const lock = lockDirectory(dataDir)
    sweepLeftovers(dataDir)
    return lock
  } catch (error) {
    if (error instanceof DirectoryInUseError) throw error
    throw new SettingError('SLUICE_DATA', `${dataDir} cannot be used (${(error as Error).message})`)
  }
}

/** The first question to a database shows whether the address is right; its answer whether somebody was there. */
async function reachPostgres(store: Store): Promise<boolean> {
  try {
    return await store.isInitialised()
  } catch (error) {
    if (error instanceof NewerStoreError) throw error
    throw new SettingError('DATABASE_URL', `PostgreSQL cannot be used (${(error as Error).message})`)
  }
}

/**
 * Takes the data directory and opens the store behind it, its secrets proven and its schema up to date. A wrong
 * secret ends this before anything is written. Shared by the server and by commands that run without one; those
 * need a gateway that has been started before. A worker finds the directory locked by its supervisor.
 */
export async function openStoreAndKeys(config: Config, { mustExist = false, isLocked = false } = {}) {
  const isEmbedded = config.databaseUrl === undefined
  // Looking for the file first: opening would make one.
  const isNew = () => isEmbedded && !existsSync(join(config.dataDir, 'sluice.db'))
  if (mustExist && isNew())
    throw new SettingError('SLUICE_DATA', `there is no gateway in ${config.dataDir} yet`)
  const lock = isLocked ? { release() {} } : takeDirectory(config.dataDir)
  const store = openStore(storeOptions(config))
  try {
    const kept = config.keyring === undefined ? readSecretFile(config.dataDir) : undefined
    const isInitialised = !isNew() && (await (isEmbedded ? store.isInitialised() : reachPostgres(store)))
    if (mustExist && !isInitialised)
      throw new SettingError(isEmbedded ? 'SLUICE_DATA' : 'DATABASE_URL', 'there is no gateway there yet')
    if (isInitialised && config.keyring === undefined && kept === undefined)
      throw new SettingError(
        'SLUICE_SECRET',
        `is not set and ${join(config.dataDir, 'secret')} is missing; the database needs the secret it was sealed under`,
      )
    const secrets =
      config.keyring ?? (kept === undefined ? [newSecret()] : readKeyring(kept, 'SLUICE_DATA/secret'))
    const source = config.keyring === undefined ? 'SLUICE_DATA/secret' : 'SLUICE_SECRET'
    const keyring = keyringOf(secrets)
    if (isInitialised) await openDigest(store.db, keyring, source)
    else if (config.keyring === undefined && kept === undefined) writeSecretFile(config.dataDir, secrets)

    await store.migrate()
    await openChainKey(store.db, keyring, now)
    const passwords = createPasswords()
    const printed = await firstStart({ config, db: store.db, keyring, passwords, now })
    const digest = await openDigest(store.db, keyring, source)
    if (digest === undefined) throw new Error('the store has no digest key after its first start')
    await sealPlainHeaders(store.db, keyring)

    const close = async () => {
      await store.close()
      lock.release()
    }
    return { store, keyring, digest, passwords, printed, close }
  } catch (error) {
    await store.close()
    lock.release()
    throw error
  }
}

export type StoreAndKeys = Awaited<ReturnType<typeof openStoreAndKeys>>

/** What commands do; `announce` tells a running relay of it. */
export const operationsOf = (
  config: Config,
  { store, keyring, digest, passwords }: StoreAndKeys,
  announce: (targets: readonly string[]) => Promise<void> = async () => {},
) =>
  createOperations({
    announce,
    db: store.db,
    engine: store.engine,
    storeOptions: storeOptions(config),
    version,
    keyring,
    digest,
    passwords,
    now,
    dataDir: config.dataDir,
    anchorFile: config.anchor === 'log' ? undefined : config.anchor.file,
    isSecretKept: config.keyring === undefined,
  })

function aloneIn(dataDir: string): Peers {
  const [assignment] = assignNodes(dataDir, 1)
  if (!assignment) throw new Error('a gateway without a node')
  return alone(assignment)
}

/** Failed sign-ins count for all workers together. */
function throttleOf({ supervisor }: Peers): Throttle {
  if (!supervisor) return createThrottle(Date.now)
  return {
    attempt: (account, address) => supervisor.call('attempt', { account, address }),
    succeed: (account, address) => supervisor.notify('succeed', { account, address }),
  }
}

/** So is the peer that sends forwarding headers without being trusted: one warning for all workers. */
function proxyReportsOf({ supervisor }: Peers, log: Logger): ProxyReports {
  if (!supervisor) return createProxyReports(now, warnOfProxy(log))
  return {
    report: peer => supervisor.notify('reportProxy', peer),
    first: async () => (await supervisor.call('firstProxy', null)) ?? undefined,
  }
}

/** Builds every room and introduces them to each other. */
export async function buildServer(
  config: Config,
  log: Logger,
  ground: StoreAndKeys,
  peers: Peers = aloneIn(config.dataDir),
) {
  const { store, keyring, digest, passwords } = ground
  const { db, engine } = store
  const identify = createIdentify({
    store: {
      findUser: id => findUser(db, id),
      findAccessToken: value => findAccessToken(db, value),
      findSession: value => findSession(db, value),
      touchAccessToken: (id, time) => touchAccessToken(db, id, time),
      touchSession: (id, time) => touchSession(db, id, time),
    },
    digest,
    now,
    onUntouched: error => log.error({ err: error }, 'the last use of a credential could not be written down'),
  })
  const isStoreAnswering = () =>
    store.ping().then(
      () => true,
      error => {
        log.error({ err: error }, 'the store does not answer')
        return false
      },
    )
  let isStopping = false
  const manage: RequestListener = (request, response) => app.routing(request, response)
  const proxies = proxyReportsOf(peers, log)
  const clientAddress = createClientAddress(config.trustedProxies, proxies.report)
  const limits = processLimits(config, readMachine(config.dataDir))
  const crowd = createConnectionLimit(limits.connections)
  const allowPrivateUpstreams = config.privateUpstreams === 'allow'
  const guard = createAddressGuard({
    policy: { allowPrivate: allowPrivateUpstreams },
    onRefused: ({ message }) => log.warn({ reason: message }, 'a connection to a provider was refused'),
  })
  const relay = await buildRelay({
    config,
    log,
    store,
    keyring,
    digest,
    clientAddress,
    guard,
    manage,
    peers,
    sessionUser: createSessionUser(identify),
    limits,
    isStopping: () => isStopping,
    isBeyond: crowd.isBeyond,
  })
  // One worker tidies up for all.
  const retention =
    peers.assignment.slot === 0
      ? createRetention({
          db,
          engine,
          now,
          sessionLastsS: SESSION_ABSOLUTE_S,
          pause: () => delay(RETENTION_PAUSE_MS),
          onFailure: error =>
            log.error({ err: error }, 'old rows could not be removed; the next hour tries again'),
        })
      : undefined
  const folding =
    peers.assignment.slot === 0
      ? createFolding({
          db,
          engine,
          now,
          pause: () => delay(FOLDING_PAUSE_MS),
          onFailure: error =>
            log.error({ err: error }, 'usage could not be summed up; the next minute tries again'),
        })
      : undefined
  const outbound = createOutboundClient(guard)
  const app = await createManageApp(
    {
      db,
      engine,
      // An embedded store lives as long as this process does; where it is slow, it is at work.
      isStoreAnswering: engine === 'postgres' ? isStoreAnswering : async () => true,
      keyring,
      digest,
      identify,
      passwords,
      throttle: throttleOf(peers),
      clientAddress,
      exposure: {
        publicHost: isPublicWithoutTls(config) ? config.host : undefined,
        untrustedProxy: proxies.first,
      },
      outbound,
      ledger: relay.ledger,
      announce: relay.announce,
      channels: relay.channels,
      routes: relay.routes,
      videos: relay.videos,
      relayFor: relay.relayFor,
      verify: operationsOf(config, ground).verify,
      consoleBuilds: createConsoleBuilds(),
      basePath: config.basePath,
      version,
      startTime: now(),
      allowPrivateUpstreams,
      memory: relay.memory,
      now,
    },
    log,
  )

  const server = createHttpServer({
    basePath: config.basePath,
    manage,
    relay: relay.listener,
    crowd,
    isReady: async () => !isStopping && (await isStoreAnswering()),
  })

  return {
    announce: relay.announce,
    listen: () => (peers.isAlone ? listen : listenBeside)(server, config.port, config.host),
    async stop(): Promise<void> {
      isStopping = true
      await drain(server, config.drainS * 1000)
      await app.close()
      await outbound.close()
      await folding?.close()
      await retention?.close()
      await relay.close()
    },
  }
}
