import { randomUUID } from 'node:crypto'
import type { RequestListener } from 'node:http'
import type { Logger } from 'pino'
import { mergeConditions } from '../domain/channel-condition.ts'
import { UnreachableError } from '../domain/errors.ts'
import { BUDGET_SHORTAGES, type Shortage } from '../domain/shortage.ts'
import { hasDescriptors, type ProcessLimits } from '../host/machine.ts'
import type { ClientAddress } from '../http/address.ts'
import type { AddressGuard } from '../http/address-guard.ts'
import { createBudget } from '../http/budget.ts'
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
import { createCallers } from '../relay/callers/callers.ts'
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
import { createExplain } from '../relay/explain.ts'
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
import { insertBodies } from '../store/usage/bodies.ts'
import { writeRejections } from '../store/usage/rejections.ts'
import type { Peers } from '../workers/peers.ts'
import { createChannelMonitor } from './channel-monitor.ts'
import type { Config } from './config.ts'
import { createFailureLog } from './failure-log.ts'
import { createInvalidation } from './invalidation.ts'
import { createMetrics, JOURNAL_LAG } from './metrics.ts'
import { openNodeLedger } from './node-ledger.ts'
import { watchOverload } from './overload.ts'
import { createRequestLog } from './request-log.ts'
import { createShipping } from './shipping.ts'
import { createShortageLog } from './shortage-log.ts'
import { createTelemetry } from './telemetry.ts'

/** The longest that a request waits for the store to find its caller. */
const FIND_CALLER_TIMEOUT_MS = 5_000

const nowS = () => Math.floor(Date.now() / 1000)

type Deps = {
  readonly config: Config
  readonly log: Logger
  readonly store: Store
  readonly keyring: Keyring
  readonly digest: Digest
  readonly bodySeal: BodySeal
  readonly clientAddress: ClientAddress
  readonly guard: AddressGuard
  readonly manage: RequestListener
  readonly peers: Peers
  sessionUser: RelayDeps['sessionUser']
  readonly limits: ProcessLimits
  isStopping(): boolean
  /** Whether the request's connection was opened above the connection limit. */
  exceedsConnectionLimit(request: RelayIncoming): boolean
  /** The number of open connections. */
  connections(): number
}

/** Rate limits apply to all workers together, so with several workers the supervisor counts the requests. */
function ratesOf({ supervisor }: Peers): RateLimiter {
  if (!supervisor) return createRates({ nowMs: monotonicMs })
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

/** Wires the relay: its ledger, catalog, channels and videos, and the invalidation of its caches. */
export async function buildRelay({
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
  sessionUser,
  limits,
  isStopping,
  exceedsConnectionLimit,
  connections,
}: Deps) {
  const { db, engine } = store
  const { nodeId, slot } = peers.assignment
  const boot = randomUUID()
  const logFailure = createFailureLog(log, Date.now)
  const node = await openNodeLedger({ config, log, store, peers })
  const { ledger } = node
  // The price table is built on first use: build it now, so that it does not delay a request.
  shippedModels()
  const findStoredCaller = findCaller({ db, digest })
  const directory = createCallers({ find: credential => withTimeout(findStoredCaller(credential)) })
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
  const rates = ratesOf(peers)
  const onShortage = createShortageLog(log, Date.now)
  const budgetOf = (shortage: Shortage, maxBytes: number) =>
    createBudget({ maxBytes, onShortage: () => onShortage(shortage) })
  const memory = budgetOf(BUDGET_SHORTAGES.memory, limits.memoryBytes)
  const upstream = createUpstream({
    resolver: guard.resolver,
    connections: limits.connections,
    memory,
    hasDescriptors,
    onShortage,
  })
  const keys = createKeyExchange({ nowMs: Date.now, upstream, refuseUrl: guard.refuseUrl })
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
    saveDecision: decision => decideStatus(db, { ...decision, time: nowS() }),
    saveTest: (id, responseMs) => recordTest(db, id, { time: nowS(), responseMs }),
    announce: (targets): Promise<void> => invalidation.announce(targets),
    runsRecovery: slot === 0,
    nowMs: Date.now,
    log,
  })
  const { health } = monitor
  const invalidation = createInvalidation<RelayChannel>({
    callers: directory,
    ledger,
    catalog,
    health,
    isSameUpstream: hasSameUpstream,
    broadcast: targets => peers.broadcast({ name: 'invalidate', input: targets }),
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
    log,
    metrics,
    nodeId,
    channelOf: id => catalog.table().channel(id),
  })
  const shipping = createShipping({ config, log, store, nodeId, shipsStore: slot === 0, metrics })
  const logRequest = createRequestLog(log, () => catalog.settings().log_requests, shipping.shipRequest)
  const rejections = createRejections({
    boot,
    write: batch => writeRejections(db, nodeId, batch),
    onFailure: error => logFailure(error, 'Rejected requests could not be written. Retrying.', 'warn'),
  })

  const bodies = createBodies({
    seal: bodySeal,
    settings: catalog.settings,
    write: rows => insertBodies(db, rows),
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
      const kept = report.capture && bodies.end(report, request, response)
      telemetry.onRequestEnd?.(report, request, response, kept)
    },
    ...(telemetry.startSpan && { startSpan: telemetry.startSpan }),
    sessionUser,
    manage,
  } satisfies RelayDeps

  const barrier = createReadBarrier({
    ledger,
    others: {
      flushAndReturn: account => peers.broadcast({ name: 'flushAndReturn', input: account }),
      barrier: () => peers.broadcast({ name: 'apply', input: null }),
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

  const { listener, serve } = createRelay(deps, videos)
  peers.serve({
    invalidate: invalidation.invalidate,
    apply: ledger.barrier,
    flushAndReturn: ledger.flushAndReturn,
    returnIdle: ledger.returnIdle,
    metrics: metrics.collect,
    conditions: async () => monitor.conditions(),
  })
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
    routes: { explain: createExplain(deps) },
    announce: invalidation.announce,
    channels: {
      ...monitor,
      conditions,
      disabledOverrides: () => listDisabledOverrides(catalog.table().channels),
    },
    async close(): Promise<void> {
      invalidation.close()
      catalog.close()
      monitor.close()
      overload.close()
      await videos.close(upstream.close)
      await counter.close()
      await translator.close()
      await rejections.close()
      await bodies.close()
      await node.close()
      // Last: a receiver that does not respond must not delay the ledger.
      await Promise.all([telemetry.close(), shipping.close()])
    },
  }
}
