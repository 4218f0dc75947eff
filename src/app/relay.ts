import { randomUUID } from 'node:crypto'
import type { RequestListener } from 'node:http'
import type { Logger } from 'pino'
import { type HealthEvent, mergeConditions } from '../domain/channel-condition.ts'
import { UnreachableError } from '../domain/errors.ts'
import { BUDGET_SHORTAGES, type Shortage } from '../domain/shortage.ts'
import { hasDescriptors, type ProcessLimits } from '../host/machine.ts'
import type { ClientAddress } from '../http/address.ts'
import { createBudget } from '../http/budget.ts'
import type { Network } from '../http/network.ts'
import type { RelayIncoming } from '../http/relay-exchange.ts'
import type { BodySeal } from '../identity/body-seal.ts'
import type { Digest } from '../identity/credentials.ts'
import type { Keyring } from '../identity/keyring.ts'
import { lagTimeout } from '../ledger/lag-timeout.ts'
import { createReadBarrier } from '../ledger/read-barrier.ts'
import { endpointTypes } from '../manage/channels/endpoint-types.ts'
import { providerOf } from '../providers/index.ts'
import { shippedModels, shippedPrice } from '../providers/prices/shipped.ts'
import { createBodies } from '../relay/bodies/bodies.ts'
import { type Caller, createCallers } from '../relay/callers/callers.ts'
import { createPlayground } from '../relay/callers/playground.ts'
import {
  createAddressBook,
  hasSameUpstream,
  listDisabledOverrides,
  openCatalog,
  type RelayChannel,
} from '../relay/catalog/catalog.ts'
import { createCatalogSource, findCaller } from '../relay/catalog/sources.ts'
import { createChannelTest } from '../relay/channel-test.ts'
import { createExplain, originOf } from '../relay/explain.ts'
import { createRelay } from '../relay/handle.ts'
import { createIdsAndClock } from '../relay/ids-and-clock.ts'
import { openForms } from '../relay/intake/form.ts'
import { createIdempotentRequests } from '../relay/intake/repeat.ts'
import { createTranslator } from '../relay/operations/translator.ts'
import { createTokenCounter } from '../relay/price/token-count.ts'
import { createRejections } from '../relay/rejections.ts'
import type { RelayDeps } from '../relay/request.ts'
import { createFormatMemory } from '../relay/upstream/format-fallback.ts'
import { createKeyExchange } from '../relay/upstream/key-exchange.ts'
import { createUpstream } from '../relay/upstream/upstream.ts'
import { createVendor } from '../relay/videos/vendor.ts'
import { createVideos } from '../relay/videos/videos.ts'
import { monotonicMs } from '../routing/clock.ts'
import { createRates, type RateLimiter } from '../routing/rates.ts'
import { createSharedRates, type RateReport } from '../routing/shared-rates.ts'
import type { Store } from '../store/engine/store.ts'
import { sumSuspense } from '../store/records/alert-observations.ts'
import { decideStatus, recordTest } from '../store/records/channel-status.ts'
import { activateDuePrices } from '../store/records/prices.ts'
import { insertPages } from '../store/usage/bodies.ts'
import { writeRejections } from '../store/usage/rejections.ts'
import type { Peers } from '../workers/peers.ts'
import { createChannelMonitor } from './channel-monitor.ts'
import type { Config } from './config.ts'
import { createFailureLog } from './failure-log.ts'
import { joinNodes } from './fleet.ts'
import { openMachineRates } from './fleet-rates.ts'
import { createHealthShare } from './health-share.ts'
import { createInvalidation } from './invalidation.ts'
import { createMetrics, JOURNAL_LAG } from './metrics.ts'
import { openNodeLedger } from './node-ledger.ts'
import { watchOverload } from './overload.ts'
import { createRequestLog } from './request-log.ts'
import { createShipping } from './shipping.ts'
import { createShortageLog } from './shortage-log.ts'
import { masterSecret } from './store-and-keys.ts'
import { createTelemetry } from './telemetry.ts'

/** The longest that a request waits for the store to find its caller. */
const FIND_CALLER_TIMEOUT_MS = 5_000

/** The longest that a read or change of a balance waits for the nodes of other machines. */
const CATCH_UP_MS = 1_000

const SHARE_HEALTH_MS = 1_000

const nowS = () => Math.floor(Date.now() / 1000)

type Deps = {
  readonly config: Config
  readonly log: Logger
  readonly store: Store
  readonly keyring: Keyring
  readonly digest: Digest
  readonly bodySeal: BodySeal
  readonly clientAddress: ClientAddress
  readonly network: Network
  readonly manage: RequestListener
  readonly peers: Peers
  sessionUser: RelayDeps['sessionUser']
  readonly limits: ProcessLimits
  /** Whether this node runs the background jobs now; undefined: it never does. */
  readonly runsJobs: (() => boolean) | undefined
  isStopping(): boolean
  /** Whether the request's connection was opened above the connection limit. */
  exceedsConnectionLimit(request: RelayIncoming): boolean
  /** The number of open connections. */
  connections(): number
}

/** Rate limits apply to all workers together, so with several workers the supervisor counts the requests. */
function ratesOf({ supervisor }: Peers, machineRates: RateLimiter | undefined): RateLimiter {
  if (!supervisor) return machineRates ?? createRates({ nowMs: monotonicMs })
  return createSharedRates({
    admit: (subjects, countedInput) =>
      supervisor.call('admit', { subjects, countedInput }) as Promise<RateReport>,
    leave: id => supervisor.call('leaveTicket', id),
    end: (id, tokens) => supervisor.call('endTicket', { id, tokens }),
    nowMs: monotonicMs,
  })
}

/** Rejects a lookup after a timeout: a hanging store must not hang the request. */
function withTimeout<T>(lookup: Promise<T>): Promise<T> {
  const timeout = Promise.withResolvers<never>()
  const stop = lagTimeout(FIND_CALLER_TIMEOUT_MS, () =>
    timeout.reject(
      new UnreachableError(new Error(`the store did not answer within ${FIND_CALLER_TIMEOUT_MS} ms`)),
    ),
  )
  return Promise.race([lookup, timeout.promise]).finally(stop)
}

/** How long a stop waits for requests that have their response and are still recorded. */
const IDLE_MS = 2_000
const PRICE_TABLE_MS = 1_000

/** Wires the relay: its ledger, catalog, channels and videos, and the invalidation of its caches. */
export async function buildRelay({
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
  sessionUser,
  limits,
  runsJobs,
  isStopping,
  exceedsConnectionLimit,
  connections,
}: Deps) {
  const { db, engine } = store
  const { nodeId, slot } = peers.assignment
  const boot = randomUUID()
  const logFailure = createFailureLog(log, Date.now)
  const node = await openNodeLedger({
    config,
    log,
    store,
    peers,
    fleet: () => fleet,
    onRollback: () => invalidation.invalidateAll(),
  })
  const { ledger } = node
  // Before the first read into a cache: later changes wait for this node.
  const fleet = await joinNodes({ config, log, store, peers, keyring, epoch: ledger.epoch })
  // The price table is built on first use, in 20 ms: build it soon, so that it delays neither the start nor a later request.
  setTimeout(shippedModels, PRICE_TABLE_MS).unref()
  const findStoredCaller = findCaller({ db, digest })
  const callers = createCallers({ find: credential => withTimeout(findStoredCaller(credential)) })
  // A request may have waited, for example for its body, while the node was fenced.
  const directory =
    engine === 'sqlite'
      ? callers
      : {
          ...callers,
          isCurrent: (credential: string, caller: Caller) =>
            !fleet.isFenced() && callers.isCurrent(credential, caller),
        }
  const catalog = await openCatalog(
    createCatalogSource({
      db,
      keyring,
      digest,
      shippedPrice,
      nowMs: Date.now,
      onUnreadable: (channelId, error) =>
        log.error({ err: error, channel_id: channelId }, 'The key of a channel cannot be decrypted.'),
      onDisabledOverride: (channelId, reason) =>
        log.warn({ channel_id: channelId, reason }, 'An override operation is disabled.'),
    }),
  )
  const machineRates =
    fleet.listener && !peers.supervisor
      ? openMachineRates({ db, listener: fleet.listener, machine: peers.assignment.machine, log })
      : undefined
  const rates = ratesOf(peers, machineRates)
  const onShortage = createShortageLog(log, Date.now)
  const budgetOf = (shortage: Shortage, maxBytes: number) =>
    createBudget({ maxBytes, onShortage: () => onShortage(shortage) })
  const memory = budgetOf(BUDGET_SHORTAGES.memory, limits.memoryBytes)
  const upstream = createUpstream({
    network,
    connections: limits.connections,
    memory,
    hasDescriptors,
    onShortage,
  })
  const keys = createKeyExchange({ nowMs: Date.now, upstream, refuseUrl: network.refuseUrl })
  const counter = createTokenCounter({
    onFailure: error => log.error({ err: error }, 'Tokens could not be counted.'),
  })
  const translator = createTranslator({
    memory,
    onFailure: error => log.error({ err: error }, 'The translation thread failed.'),
  })
  const monitor = createChannelMonitor<RelayChannel>({
    channels: () => catalog.table().channels,
    channel: id => catalog.table().channel(id),
    testChannel: createChannelTest({ catalog, upstream, keys, nowMs: Date.now }),
    saveDecision: ({ key, ...decision }) => decideStatus(db, { ...decision, keyId: key?.id, time: nowS() }),
    saveTest: (id, responseMs) => recordTest(db, id, { time: nowS(), responseMs }),
    announce: async (targets): Promise<void> => void (await invalidation.announce(targets)),
    shareHealth: event => healthShare.share(event),
    runsRecovery: runsJobs,
    nowMs: Date.now,
    log,
  })
  const { health } = monitor
  const healthShare = createHealthShare({
    async send(events) {
      const [missing] = await Promise.all([
        fleet.callOthers('health', events, SHARE_HEALTH_MS),
        peers.broadcast({ name: 'health', input: events }),
      ])
      return missing.length === 0
    },
    onFailure: error =>
      logFailure(error, 'The state of channels could not be sent to the other nodes.', 'warn'),
  })
  const healthProcedures = {
    health: async (events: readonly HealthEvent[]) => monitor.adoptHealth(healthShare.unseen(events)),
    reportHealth: async () => {
      for (const event of monitor.cooldowns()) healthShare.share(event)
    },
  }
  const invalidation = createInvalidation<RelayChannel>({
    callers: directory,
    ledger,
    catalog,
    health,
    isSameUpstream: hasSameUpstream,
    broadcast: targets => peers.broadcast({ name: 'invalidate', input: targets }),
    confirm: fleet.confirm,
    onApplied: fleet.noteApplied,
    // Prices are in the shared store, so one worker activates them for all.
    activatePrices: async () => {
      if (slot === 0) await activateDuePrices(db, nowS())
    },
    onFailure: error => logFailure(error as Error, 'Changes could not be read. Retrying in a second.'),
  })
  invalidation.start()
  const overload = watchOverload()
  const metrics = createMetrics(peers.otherMetrics)
  const telemetry = createTelemetry({
    config,
    network,
    log,
    metrics,
    nodeId,
    channelOf: id => catalog.table().channel(id),
  })
  const shipping = createShipping({ config, network, log, store, nodeId, shipsStore: slot === 0, metrics })
  const logRequest = createRequestLog(log, () => catalog.settings().log_requests, shipping.shipRequest)
  const rejections = createRejections({
    boot,
    write: batch => writeRejections(db, nodeId, batch),
    onFailure: error => logFailure(error, 'Rejected requests could not be written. Retrying.', 'warn'),
  })

  const bodies = createBodies({
    seal: bodySeal,
    memory,
    settings: catalog.settings,
    write: pages => insertPages({ db, engine }, pages),
    random: Math.random,
    now: nowS,
    onDropped: metrics.onBodiesDropped,
    onFailure: error => log.warn({ err: error }, 'Bodies of requests could not be written and were dropped.'),
  })

  const deps = {
    directory,
    catalog,
    ledger,
    health,
    rates,
    upstream,
    keys,
    addressOf: createAddressBook(),
    formats: createFormatMemory(Date.now),
    counter,
    clientAddress,
    maxBodyBytes: config.maxBodyMb * 1_048_576,
    memory,
    onShortage,
    forms: openForms(config.dataDir, budgetOf(BUDGET_SHORTAGES.tmp, limits.tmpBytes)),
    idempotentRequests: createIdempotentRequests({
      db,
      keyring,
      nodeId,
      boot,
      now: nowS,
    }),
    readContext: {
      settings: catalog.settings,
      isServed: model => catalog.table().resolve(model) !== undefined,
      idsAndClock: createIdsAndClock(Date.now),
      translator,
    },
    isStopping,
    isFenced: fleet.isFenced,
    isOverloaded: request => overload.isOverloaded() || exceedsConnectionLimit(request),
    nowMs: Date.now,
    random: Math.random,
    ownerOf: type => (type === undefined ? 'custom' : (providerOf(type)?.name.toLowerCase() ?? 'custom')),
    endpointTypes: model => endpointTypes(model, catalog.priceOf([model])?.price),
    onFailure: (error, requestId) => log.error({ err: error, request_id: requestId }, 'A request failed.'),
    rejections,
    onRequestStart: metrics.onRequestStart,
    onRequestEnd(report, request, response) {
      metrics.onRequestEnd(report, request, response)
      logRequest(report, request, response)
      const keptBodies = report.capture && bodies.end(report, request, response)
      telemetry.onRequestEnd?.(report, request, response, keptBodies)
    },
    ...(telemetry.startSpan && { startSpan: telemetry.startSpan }),
    sessionUser,
    manage,
  } satisfies RelayDeps

  const barrier = createReadBarrier({
    ledger,
    others: {
      async flushAndReturn(account) {
        const [missing] = await Promise.all([
          fleet.callOthers('flushAndReturn', account, CATCH_UP_MS),
          peers.broadcast({ name: 'flushAndReturn', input: account }),
        ])
        return missing.length === 0
      },
      async barrier() {
        const [missing] = await Promise.all([
          fleet.callOthers('apply', null, CATCH_UP_MS),
          peers.broadcast({ name: 'apply', input: null }),
        ])
        return missing.length === 0
      },
    },
  })

  const videos = createVideos({
    ...deps,
    db,
    engine,
    keyring,
    nodeId,
    vendor: createVendor({ upstream, keys, nowMs: deps.nowMs }),
    flushAndReturn: barrier.flushAndReturn,
    searchMs: config.videoDoubtS * 1000,
    deadlineMs: config.videoDeadlineS * 1000,
    basePath: config.basePath,
    onProblem: (error, message, videoId) => log.warn({ err: error, video_id: videoId }, message),
    onLateSettlement: metrics.onLateSettlement,
    onLateCharge: metrics.onLateCharge,
  })

  const { listener, serve, idle } = createRelay(deps, videos)
  peers.serve({
    invalidate: invalidation.invalidate,
    apply: ledger.barrier,
    flushAndReturn: ledger.flushAndReturn,
    returnIdle: ledger.returnIdle,
    reloadSecret: async () => keyring.replace(masterSecret(config, true).secrets),
    ...healthProcedures,
    metrics: metrics.collect,
    conditions: async () => monitor.conditions(),
  })
  fleet.start({
    invalidate: invalidation.invalidate,
    inFlight: metrics.inFlight,
    apply: ledger.barrier,
    flushAndReturn: ledger.flushAndReturn,
    returnIdle: ledger.returnIdle,
    ...healthProcedures,
    drain: stopMachine,
  })
  // This node has just started, and does not know the cooldowns of the others.
  Promise.all([
    peers.broadcast({ name: 'reportHealth', input: null }),
    fleet.callOthers('reportHealth', null, SHARE_HEALTH_MS),
  ]).catch(error =>
    logFailure(error, 'The state of channels could not be read from the other nodes.', 'warn'),
  )
  let isDraining = false
  /** Stops the gateway as an operator would: this process, or the supervisor of all workers. */
  function stopMachine(): void {
    if (isDraining) return
    isDraining = true
    log.warn('An operator stops this gateway through the management API.')
    if (peers.isAlone) process.kill(process.pid, 'SIGTERM')
    else if (slot === 0) process.kill(process.ppid, 'SIGTERM')
  }
  const conditions = async () => mergeConditions([monitor.conditions(), ...(await peers.otherConditions())])
  metrics.watch({
    eventLoopLagS: overload.lagS,
    journalLagS: () => ledger.lagMs() / 1000,
    heldNanos: ledger.heldInAll,
    leasedNanos: ledger.leasedInAll,
    connections,
    bodyBytes: memory.used,
    // The first worker reports what all workers share.
    suspenseNanos: slot === 0 ? async () => (await sumSuspense(db)).amount : undefined,
    channelStates: slot === 0 ? async () => monitor.states(await conditions()) : undefined,
  })

  /** The longest lag of any worker that responds. */
  async function journalLagS(): Promise<number> {
    // While the store is unavailable, some metrics cannot be collected: then this worker stands for all.
    const others = await metrics
      .collect()
      .then(peers.otherMetrics)
      .catch(() => [])
    const lags = others
      .flat()
      .filter(({ name }) => name === JOURNAL_LAG)
      .flatMap(({ series }) => series.flatMap(({ values }) => values))
    return Math.max(ledger.lagMs() / 1000, ...lags)
  }

  return {
    listener,
    serve,
    journalLagS,
    metrics,
    memory,
    relayFor: createPlayground(serve),
    videos,
    ledger: barrier,
    routes: {
      explain: createExplain(deps),
      networkOf(channelId: number) {
        const channel = catalog.table().channel(channelId)
        const origin = channel && originOf(channel)
        return origin === undefined ? undefined : network.report(origin, channel?.network)
      },
    },
    announce: invalidation.announce,
    setAddress: fleet.setAddress,
    isFenced: fleet.isFenced,
    channels: {
      ...monitor,
      conditions,
      disabledOverrides: () => listDisabledOverrides(catalog.table().channels),
    },
    async close(): Promise<void> {
      await idle(IDLE_MS)
      invalidation.close()
      healthShare.close()
      catalog.close()
      monitor.close()
      overload.close()
      await videos.close(upstream.close)
      await counter.close()
      await translator.close()
      await rejections.close()
      await bodies.close()
      await machineRates?.close()
      await fleet.close()
      await node.close()
      // Last: a receiver that does not respond must not delay the ledger.
      await Promise.all([telemetry.close(), shipping.close()])
    },
  }
}
