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
import { createConnectionLimit } from '../http/connection-limit.ts'
import { createProxyReports, type ProxyReports } from '../http/exposure.ts'
import { serveMetrics } from '../http/metrics-server.ts'
import { createOutboundClient } from '../http/outbound.ts'
import { createHttpServer, drain, listen, listenShared } from '../http/server.ts'
import { createIdentify, SESSION_ABSOLUTE_S } from '../identity/identify.ts'
import { createStoredThrottle, createThrottle, type Throttle } from '../identity/throttle.ts'
import { createSessionUser } from '../manage/people/session-user.ts'
import type { Deps as ManageDeps } from '../manage/server/deps.ts'
import { EXPOSITION_TYPE } from '../metrics/exposition.ts'
import { openReplica } from '../store/engine/replica.ts'
import type { Store } from '../store/engine/store.ts'
import { createPartitionUpkeep } from '../store/partitions/upkeep.ts'
import { findAccessToken, touchAccessToken } from '../store/records/access-tokens.ts'
import { findSession, touchSession } from '../store/records/sessions.ts'
import { changeFailures } from '../store/records/sign-in-failures.ts'
import { findUser } from '../store/records/users.ts'
import { createFolding } from '../store/usage/folds.ts'
import { createRetention } from '../store/usage/retention.ts'
import { alone, type Peers } from '../workers/peers.ts'
import { addressFault } from './address-fault.ts'
import { createConditions } from './alert-conditions.ts'
import { createMailer } from './alert-mail.ts'
import { createAlertSender } from './alert-sender.ts'
import { createAlerts, createAlertTest } from './alerts.ts'
import type { Config } from './config.ts'
import { isPublicWithoutTls, warnOfProxy } from './exposure.ts'
import { createFailureLog } from './failure-log.ts'
import { createJobLease } from './job-lease.ts'
import { jobLeaseStore } from './job-lease-store.ts'
import { createOnDemandApi } from './management-api.ts'
import { addressPolicyOf, openNetwork } from './network.ts'
import { assignNodes } from './nodes.ts'
import { buildRelay } from './relay.ts'
import type { StoreAndKeys } from './store-and-keys.ts'

const now = () => Math.floor(Date.now() / 1000)
const RETENTION_PAUSE_MS = 50
const FOLDING_PAUSE_MS = 20
const PARTITIONS_PAUSE_MS = 1_000

function aloneIn(dataDir: string): Peers {
  const [assignment] = assignNodes(dataDir, 1)
  if (!assignment) throw new Error('no node was assigned to this gateway')
  return alone(assignment)
}

function freeBytes(directory: string): number {
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize
}

/** Failed sign-ins are counted for all workers together, by the supervisor, and for all machines in PostgreSQL. */
function throttleOf({ supervisor }: Peers, { db, engine }: Store, log: Logger): Throttle {
  if (engine === 'postgres')
    return createStoredThrottle(
      { change: (keys, work) => changeFailures(db, keys, work) },
      () => performance.now(),
      error => log.warn({ err: error }, 'A successful sign-in could not be counted.'),
    )
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
  let isDraining = false
  let isStopping = false
  const manage: RequestListener = (request, response) => managementApi.serve(request, response)
  const proxies = proxyReportsOf(peers, log)
  const clientAddress = createClientAddress(config.trustedProxies, proxies.report, config.tls !== undefined)
  const limits = processLimits(config, readMachine(config.dataDir))
  const connectionLimit = createConnectionLimit(limits.connections)
  const logLeaseFailure = createFailureLog(log, Date.now)
  // The first worker runs the jobs of the store for all workers, on one machine for all.
  const jobLease =
    peers.assignment.slot === 0
      ? createJobLease({
          store: engine === 'postgres' ? jobLeaseStore(db) : undefined,
          holder: peers.assignment.nodeId,
          now,
          monotonicMs: () => performance.now(),
          onFailure: error =>
            logLeaseFailure(
              error,
              'The lease of the background jobs could not be renewed. Retrying in 15 s.',
              'warn',
            ),
        })
      : undefined
  const network = openNetwork(config, ({ message }) =>
    log.warn({ reason: message }, 'Refused a connection to a provider.'),
  )
  const relay = await buildRelay({
    config,
    log,
    store,
    keyring,
    digest,
    bodySeal,
    clientAddress,
    network,
    manage,
    peers,
    sessionUser: createSessionUser(identify),
    limits,
    runsJobs: jobLease?.isHeld,
    isStopping: () => isStopping,
    exceedsConnectionLimit: connectionLimit.exceedsLimit,
    connections: connectionLimit.open,
  })
  const retention =
    jobLease &&
    createRetention({
      db,
      engine,
      now,
      isLeader: jobLease.isHeld,
      sessionLastsS: SESSION_ABSOLUTE_S,
      pause: () => delay(RETENTION_PAUSE_MS),
      onFailure: error => log.error({ err: error }, 'Old rows could not be removed. Retrying in an hour.'),
    })
  const folding =
    jobLease &&
    createFolding({
      db,
      engine,
      now,
      isLeader: jobLease.isHeld,
      pause: () => delay(FOLDING_PAUSE_MS),
      onFailure: error => log.error({ err: error }, 'Usage could not be aggregated. Retrying in a minute.'),
    })
  const partitionUpkeep =
    jobLease && engine === 'postgres'
      ? createPartitionUpkeep({
          db,
          openMaintenance: store.openMaintenance,
          now,
          isLeader: jobLease.isHeld,
          pause: () => delay(PARTITIONS_PAUSE_MS),
          onConverted: ({ table, end, lockedMs }) =>
            log.info(
              { table, from: new Date(end * 1000).toISOString(), locked_ms: Math.round(lockedMs) },
              'A table is now partitioned by time.',
            ),
          onFailure: error =>
            log.error({ err: error }, 'Partitions could not be made or converted. Retrying in an hour.'),
        })
      : undefined
  const outbound = createOutboundClient(network)
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
  const replica = config.replicaUrl === undefined ? undefined : openReplica(config.replicaUrl)
  const logReplicaFailure = createFailureLog(log, Date.now)
  const manageDeps: ManageDeps = {
    db,
    engine,
    replica: replica && {
      ...replica,
      onFailure: error =>
        logReplicaFailure(error, 'The standby cannot be used for reports. The primary serves them.', 'warn'),
    },
    // An embedded store is always available: a slow response means that it is busy.
    isStoreAnswering: engine === 'postgres' ? isStoreAnswering : async () => true,
    keyring,
    digest,
    bodySeal,
    identify,
    passwords,
    throttle: throttleOf(peers, store, log),
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
    verify: async input => {
      const { operationsOf } = await import('./operations.ts')
      return operationsOf(config, storeAndKeys).verify(input)
    },
    consoleBuilds: createConsoleBuilds(),
    basePath: config.basePath,
    version,
    resetCommand: resetCommand(config.dataDir),
    startTime: now(),
    addressPolicy: addressPolicyOf(config),
    memory: relay.memory,
    exceedsConnectionLimit: connectionLimit.exceedsLimit,
    now,
  }
  const loadManagementApi = async () => {
    const { createManageApp } = await import('../manage/server/app.ts')
    return createManageApp(manageDeps, log)
  }
  const managementApi = createOnDemandApi(loadManagementApi, log)

  const http = createHttpServer({
    basePath: config.basePath,
    manage,
    relay: relay.listener,
    serveRelay: relay.serve,
    usesHttp1: config.usesHttp1,
    connectionLimit,
    isReady: async () => !isDraining && !relay.isFenced() && (await isStoreAnswering()),
    isDraining: () => isDraining,
    tls: config.tls && {
      ...config.tls,
      onReload: () => log.info('The TLS certificate was read again.'),
      onFailure: error =>
        log.error(
          { err: error },
          'The TLS certificate has changed but cannot be used. The previous one stays in use.',
        ),
    },
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
    }).catch(error => {
      throw addressFault(error, { port: 'SLUICE_METRICS_PORT', host: 'SLUICE_METRICS_HOST' }) ?? error
    })
  }

  return {
    announce: relay.announce,
    flushAndReturn: relay.ledger.flushAndReturn,
    async listen(): Promise<number> {
      await listenForMetrics()
      const port = await (peers.isAlone ? listen : listenShared)(http.listener, config.port, config.host)
      if (port !== config.port) await relay.setAddress(`${config.host}:${port}`)
      return port
    },
    /** Makes the gateway not ready, and closes connections after their next response. It still serves new requests. */
    startDraining(): void {
      isDraining = true
    },
    async stop(): Promise<void> {
      isDraining = true
      isStopping = true
      metricsServer?.close()
      metricsServer?.closeAllConnections()
      await drain(http, config.drainS * 1000)
      await managementApi.close()
      await replica?.close()
      await stopAlerts?.()
      await outbound.close()
      await folding?.close()
      await retention?.close()
      await partitionUpkeep?.close()
      await jobLease?.close()
      await relay.close()
    },
  }
}
