import { statfsSync } from 'node:fs'
import type { RequestListener, Server } from 'node:http'
import { hostname } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { resetCommand } from '../host/command.ts'
import { createConsoleBuilds } from '../host/console-files.ts'
import { processLimits, readMachine } from '../host/machine.ts'
import { version } from '../host/version.ts'
import { createClientAddress } from '../http/address.ts'
import { createAddressGuard } from '../http/address-guard.ts'
import { createConnectionLimit } from '../http/connection-limit.ts'
import { createProxyReports, type ProxyReports } from '../http/exposure.ts'
import { serveMetrics } from '../http/metrics-server.ts'
import { createOutboundClient } from '../http/outbound.ts'
import { createHttpServer, drain, listen, listenShared } from '../http/server.ts'
import { createIdentify, SESSION_ABSOLUTE_S } from '../identity/identify.ts'
import { createThrottle, type Throttle } from '../identity/throttle.ts'
import { createSessionUser } from '../manage/people/session-user.ts'
import { createManageApp } from '../manage/server/app.ts'
import { EXPOSITION_TYPE } from '../metrics/exposition.ts'
import { findAccessToken, touchAccessToken } from '../store/records/access-tokens.ts'
import { findSession, touchSession } from '../store/records/sessions.ts'
import { findUser } from '../store/records/users.ts'
import { createFolding } from '../store/usage/folds.ts'
import { createRetention } from '../store/usage/retention.ts'
import { alone, type Peers } from '../workers/peers.ts'
import { createConditions } from './alert-conditions.ts'
import { createMailer } from './alert-mail.ts'
import { createAlertSender } from './alert-sender.ts'
import { createAlerts, createAlertTest } from './alerts.ts'
import type { Config } from './config.ts'
import { isPublicWithoutTls, warnOfProxy } from './exposure.ts'
import { assignNodes } from './nodes.ts'
import { operationsOf } from './operations.ts'
import { buildRelay } from './relay.ts'
import type { StoreAndKeys } from './store-and-keys.ts'

const now = () => Math.floor(Date.now() / 1000)
const RETENTION_PAUSE_MS = 50
const FOLDING_PAUSE_MS = 20

function aloneIn(dataDir: string): Peers {
  const [assignment] = assignNodes(dataDir, 1)
  if (!assignment) throw new Error('no node was assigned to this gateway')
  return alone(assignment)
}

function freeBytes(directory: string): number {
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize
}

/** Failed sign-ins are counted for all workers together, by the supervisor. */
function throttleOf({ supervisor }: Peers): Throttle {
  if (!supervisor) return createThrottle(Date.now)
  return {
    attempt: (account, address) => supervisor.call('attempt', { account, address }),
    succeed: (account, address) => supervisor.notify('succeed', { account, address }),
  }
}

/** The first untrusted proxy is reported once for all workers. */
function proxyReportsOf({ supervisor }: Peers, log: Logger): ProxyReports {
  if (!supervisor) return createProxyReports(now, warnOfProxy(log))
  return {
    report: peer => supervisor.notify('reportProxy', peer),
    first: async () => (await supervisor.call('firstProxy', null)) ?? undefined,
  }
}

/** Wires the parts of one gateway process. */
export async function buildServer(
  config: Config,
  log: Logger,
  storeAndKeys: StoreAndKeys,
  peers: Peers = aloneIn(config.dataDir),
) {
  const { store, keyring, digest, bodySeal, passwords } = storeAndKeys
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
    onUntouched: error =>
      log.error({ err: error }, 'The time of last use of a credential could not be saved.'),
  })
  const isStoreAnswering = () =>
    store.ping().then(
      () => true,
      error => {
        log.error({ err: error }, 'The database does not respond.')
        return false
      },
    )
  let isStopping = false
  const manage: RequestListener = (request, response) => app.routing(request, response)
  const proxies = proxyReportsOf(peers, log)
  const clientAddress = createClientAddress(config.trustedProxies, proxies.report)
  const limits = processLimits(config, readMachine(config.dataDir))
  const connectionLimit = createConnectionLimit(limits.connections)
  const allowPrivateUpstreams = config.privateUpstreams === 'allow'
  const guard = createAddressGuard({
    policy: { allowPrivate: allowPrivateUpstreams },
    onRefused: ({ message }) => log.warn({ reason: message }, 'Refused a connection to a provider.'),
  })
  const relay = await buildRelay({
    config,
    log,
    store,
    keyring,
    digest,
    bodySeal,
    clientAddress,
    guard,
    manage,
    peers,
    sessionUser: createSessionUser(identify),
    limits,
    isStopping: () => isStopping,
    exceedsConnectionLimit: connectionLimit.exceedsLimit,
    connections: connectionLimit.open,
  })
  // The first worker does this for all workers.
  const retention =
    peers.assignment.slot === 0
      ? createRetention({
          db,
          engine,
          now,
          sessionLastsS: SESSION_ABSOLUTE_S,
          pause: () => delay(RETENTION_PAUSE_MS),
          onFailure: error =>
            log.error({ err: error }, 'Old rows could not be removed. Retrying in an hour.'),
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
            log.error({ err: error }, 'Usage could not be aggregated. Retrying in a minute.'),
        })
      : undefined
  const outbound = createOutboundClient(guard)
  const machine = hostname()
  const send = createAlertSender({
    outbound,
    sendMail: createMailer({ db, keyring }),
    keyring,
    nowMs: Date.now,
  })
  const alerts = createAlerts({
    db,
    engine,
    observe: createConditions({
      db,
      machine: {
        name: machine,
        freeDiskBytes: () => freeBytes(config.dataDir),
        journalLagS: relay.journalLagS,
        workerExits: async () => (await peers.supervisor?.call('workerExits', null)) ?? [],
      },
    }),
    send,
    machine,
    holder: peers.assignment.nodeId,
    now,
    log,
  })
  const stopAlerts = peers.assignment.slot === 0 ? alerts.start() : undefined
  const app = await createManageApp(
    {
      db,
      engine,
      // An embedded store is always available: a slow response means that it is busy.
      isStoreAnswering: engine === 'postgres' ? isStoreAnswering : async () => true,
      keyring,
      digest,
      bodySeal,
      identify,
      passwords,
      throttle: throttleOf(peers),
      clientAddress,
      exposure: {
        publicHost: isPublicWithoutTls(config) ? config.host : undefined,
        untrustedProxy: proxies.first,
      },
      outbound,
      testAlertTarget: createAlertTest({ send, machine, now }),
      metrics: { contentType: EXPOSITION_TYPE, ...relay.metrics },
      ledger: relay.ledger,
      announce: relay.announce,
      channels: relay.channels,
      routes: relay.routes,
      videos: relay.videos,
      relayFor: relay.relayFor,
      verify: operationsOf(config, storeAndKeys).verify,
      consoleBuilds: createConsoleBuilds(),
      basePath: config.basePath,
      version,
      resetCommand: resetCommand(config.dataDir),
      startTime: now(),
      allowPrivateUpstreams,
      memory: relay.memory,
      exceedsConnectionLimit: connectionLimit.exceedsLimit,
      now,
    },
    log,
  )

  const http = createHttpServer({
    basePath: config.basePath,
    manage,
    relay: relay.listener,
    serveRelay: relay.serve,
    usesHttp1: config.usesHttp1,
    connectionLimit,
    isReady: async () => !isStopping && (await isStoreAnswering()),
  })

  let metricsServer: Server | undefined
  async function listenForMetrics(): Promise<void> {
    const { metricsPort: port, metricsHost: host } = config
    // The first worker reports for all.
    if (port === undefined || peers.assignment.slot !== 0) return
    metricsServer = await serveMetrics({
      port,
      host,
      contentType: EXPOSITION_TYPE,
      expose: relay.metrics.expose,
      onFailure: error => log.error({ err: error }, 'The metrics could not be collected.'),
    })
  }

  return {
    announce: relay.announce,
    async listen(): Promise<number> {
      await listenForMetrics()
      return (peers.isAlone ? listen : listenShared)(http.server, config.port, config.host)
    },
    async stop(): Promise<void> {
      isStopping = true
      metricsServer?.close()
      metricsServer?.closeAllConnections()
      await drain(http, config.drainS * 1000)
      await app.close()
      await stopAlerts?.()
      await outbound.close()
      await folding?.close()
      await retention?.close()
      await relay.close()
    },
  }
}
