import { randomUUID } from 'node:crypto'
import type { IncomingMessage, RequestListener } from 'node:http'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { ChannelTestResult } from '../domain/channel-test.ts'
import { UnreachableError } from '../domain/errors.ts'
import { BUDGET_SHORTAGES, type Shortage } from '../domain/shortage.ts'
import { hasDescriptors, type ProcessLimits } from '../host/machine.ts'
import type { ClientAddress } from '../http/address.ts'
import type { AddressGuard } from '../http/address-guard.ts'
import { createBudget } from '../http/budget.ts'
import type { Digest } from '../identity/credentials.ts'
import type { Keyring } from '../identity/keyring.ts'
import { createAnchorFile } from '../ledger/anchor-file.ts'
import { type AnchorSink, createAnchors } from '../ledger/anchors.ts'
import type { AccountName } from '../ledger/books.ts'
import { lagTimeout } from '../ledger/lag-timeout.ts'
import { openLedger } from '../ledger/ledger.ts'
import { recover } from '../ledger/recovery.ts'
import { endpointTypes } from '../manage/channels/endpoint-types.ts'
import { providerOf } from '../providers/index.ts'
import { shippedModels, shippedPrice } from '../providers/prices/shipped.ts'
import { createCallers } from '../relay/callers/callers.ts'
import { createPlayground } from '../relay/callers/playground.ts'
import { createAddressBook, isAskedAlike, openCatalog, type RelayChannel } from '../relay/catalog/catalog.ts'
import { createCatalogSource, findCaller } from '../relay/catalog/sources.ts'
import { createChannelTest, type TestOptions } from '../relay/channel-test.ts'
import { createExplain } from '../relay/explain.ts'
import { createRelay } from '../relay/handle.ts'
import { createIdsAndClock } from '../relay/ids-and-clock.ts'
import { openForms } from '../relay/intake/form.ts'
import { createIdempotentRequests } from '../relay/intake/repeat.ts'
import { createTokenCounter } from '../relay/price/token-count.ts'
import type { RelayDeps } from '../relay/request.ts'
import { createFormatMemory } from '../relay/upstream/format-fallback.ts'
import { createKeyExchange } from '../relay/upstream/key-exchange.ts'
import { createUpstream } from '../relay/upstream/upstream.ts'
import { createVendor } from '../relay/videos/vendor.ts'
import { createVideos } from '../relay/videos/videos.ts'
import { monotonicMs } from '../routing/clock.ts'
import { createHealth } from '../routing/health.ts'
import { createRates, type RateLimiter } from '../routing/rates.ts'
import { createRecovery } from '../routing/recovery.ts'
import { createSharedRates, type RateReport } from '../routing/shared-rates.ts'
import { NO_KEY, type RoutedKey } from '../routing/table.ts'
import { createBooks } from '../store/books/books.ts'
import { chainKeyOf } from '../store/books/chain-key.ts'
import { listChains } from '../store/books/chains.ts'
import type { Store } from '../store/engine/store.ts'
import { decideStatus, recordTest } from '../store/records/channel-status.ts'
import { activateDuePrices } from '../store/records/prices.ts'
import { dropUnsent, endLeases } from '../store/records/videos.ts'
import type { Peers } from '../workers/peers.ts'
import { type Config, SettingError } from './config.ts'
import { openNode } from './nodes.ts'
import { createShortageLog } from './shortage-log.ts'

/** New work is refused while the event loop lags behind this much: what runs must not suffer. */
const OVERLOAD_LAG_MS = 1_000
const LAG_EVERY_MS = 500
const LOOK_EVERY_MS = 1_000
/** Whoever is not known yet waits so long for the store to say who it is. */
const FIND_CALLER_MS = 5_000
const RECOVERY_EVERY_MS = 15_000
const RECOVERIES_AT_ONCE = 5
/** A read of a balance waits so long for the other workers; then it is told with what is known. */
const CATCH_UP_MS = 1_000

type Deps = {
  readonly config: Config
  readonly log: Logger
  readonly store: Store
  readonly keyring: Keyring
  readonly digest: Digest
  readonly clientAddress: ClientAddress
  readonly guard: AddressGuard
  readonly manage: RequestListener
  readonly peers: Peers
  sessionUser: RelayDeps['sessionUser']
  readonly limits: ProcessLimits
  isStopping(): boolean
  /** Whether a request came over one connection too many. */
  isBeyond(request: IncomingMessage): boolean
}

/** Limits hold for all workers together, so with several of them their supervisor counts. */
function ratesOf({ supervisor }: Peers): RateLimiter {
  if (!supervisor) return createRates({ nowMs: monotonicMs })
  return createSharedRates({
    admit: (subjects, countedInput) =>
      supervisor.ask('admit', { subjects, countedInput }) as Promise<RateReport>,
    leave: id => supervisor.ask('leaveTicket', id),
    end: (id, tokens) => supervisor.ask('endTicket', { id, tokens }),
    nowMs: monotonicMs,
  })
}

/** How late the event loop is, looked at twice a second. */
function createLagWatch() {
  const histogram = monitorEventLoopDelay({ resolution: 20 })
  histogram.enable()
  let lagMs = 0
  const timer = setInterval(() => {
    // Nothing was measured since the last look: the loop stood still meanwhile, which says nothing good.
    if (histogram.count === 0) return
    lagMs = histogram.percentile(50) / 1e6
    histogram.reset()
  }, LAG_EVERY_MS)
  timer.unref()
  return {
    lagMs: () => lagMs,
    close(): void {
      clearInterval(timer)
      histogram.disable()
    },
  }
}

/** A store that hangs must not keep a caller for as long as it hangs. */
function soon<T>(asked: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const stop = lagTimeout(FIND_CALLER_MS, () =>
    late.reject(new UnreachableError(new Error(`the store said nothing for ${FIND_CALLER_MS} ms`))),
  )
  return Promise.race([asked, late.promise]).finally(stop)
}

/** The file of anchors, or the log; whatever its level, because these lines were asked for. */
function anchorSinkOf({ anchor }: Config, log: Logger): AnchorSink {
  if (anchor !== 'log') {
    try {
      return createAnchorFile(anchor.file)
    } catch (error) {
      throw new SettingError(
        'SLUICE_ANCHOR',
        `${anchor.file} cannot be written (${(error as Error).message})`,
      )
    }
  }
  const lines = log.child({}, { level: 'info' })
  return {
    isFile: false,
    append: sealed => lines.info({ anchor: sealed }, 'anchor'),
    makeRoom: () => false,
    last: () => undefined,
  }
}

/** The relay with its books, and how news from the management side reaches it. */
export async function buildRelay({
  config,
  log,
  store,
  keyring,
  digest,
  clientAddress,
  guard,
  manage,
  peers,
  sessionUser,
  limits,
  isStopping,
  isBeyond,
}: Deps) {
  const { db, engine } = store
  const books = createBooks(db, engine)
  const { nodeId, orphans, slot } = peers.assignment
  const onShort = (error: Error) =>
    log.error(
      { err: error },
      'the disk takes no more of the journal: what runs is settled out of the reserve, and nothing is begun until there is room',
    )
  for (const orphan of orphans) {
    const left = openNode(config, orphan, onShort)
    await recover({
      nodeId: orphan,
      journal: left.journal,
      books,
      nowMs: Date.now,
      onLost: what => log.error({ node: orphan, what }, 'records in the books are gone from a journal'),
    })
    left.journal.close()
    left.release()
    await dropUnsent(db, orphan)
    await endLeases(db, orphan)
  }
  const node = openNode(config, nodeId, onShort)
  const ledger = await openLedger({
    nodeId,
    journal: node.journal,
    books,
    neighbours: {
      areNone: peers.isAlone,
      recall: accounts => peers.tellOthers({ name: 'recall', input: accounts }),
      exclusively: (userId, work) => peers.exclusively(`user:${userId}`, work),
    },
    nowMs: Date.now,
    onFailure: (error, message) => log.error({ err: error }, message),
  })
  await dropUnsent(db, nodeId)
  await endLeases(db, nodeId)
  const anchors = createAnchors({
    nodeId,
    key: chainKeyOf(db),
    // One worker writes for the machine; the journals are each worker's own.
    sink: slot === 0 ? anchorSinkOf(config, log) : undefined,
    heads: async () => (await listChains(db)).map(({ name, seq, hash }) => ({ chain: name, seq, hash })),
    journal: (anchor, isFiled) => void node.journal.append({ kind: 'anchor', anchor, isFiled }),
    now: () => Math.floor(Date.now() / 1000),
    onFailure: error =>
      log.error({ err: error }, 'the heads of the chains could not be anchored; the next minute tries again'),
  })
  await anchors.start()
  // Built on first use, which must not be somebody's request.
  shippedModels()
  const findInStore = findCaller({ db, digest })
  const directory = createCallers({ find: credential => soon(findInStore(credential)) })
  const catalog = await openCatalog(
    createCatalogSource({
      db,
      keyring,
      digest,
      shippedPrice,
      nowMs: Date.now,
      onUnreadable: (channelId, error) =>
        log.error({ err: error, channel_id: channelId }, 'a key cannot be opened'),
    }),
  )
  /** A key or channel the gateway gave up on, or that came back: written down first, then known to the relay. */
  function decide(channelId: number, key: RoutedKey | undefined, status: 1 | 3, reason: string): void {
    const time = Math.floor(Date.now() / 1000)
    decideStatus(db, { channelId, keyPosition: key?.index, status, reason, time })
      .then(isNews => (isNews ? announce([`channel:${channelId}`]) : undefined))
      .then(() =>
        log.warn({ channel_id: channelId, key: key?.index, status, reason }, 'the gateway changed a channel'),
      )
      .catch(error => log.error({ err: error, channel_id: channelId }, 'a channel could not be changed'))
  }
  const health = createHealth({
    nowMs: Date.now,
    onDisable: ({ channelId, key, reason }) => decide(channelId, key, 3, reason),
  })
  const recovery = createRecovery<RelayChannel>({
    nowMs: Date.now,
    onRecover: ({ channelId, key }) => decide(channelId, key, 1, ''),
  })
  const rates = ratesOf(peers)
  const onShortage = createShortageLog(log, Date.now)
  const budgetOf = (shortage: Shortage, maxBytes: number) =>
    createBudget({ maxBytes, onShort: () => onShortage(shortage) })
  const memory = budgetOf(BUDGET_SHORTAGES.memory, limits.memoryBytes)
  const upstream = createUpstream({
    connector: guard.connector,
    connections: limits.connections,
    memory,
    hasDescriptors,
    onShortage,
  })
  const keys = createKeyExchange({ nowMs: Date.now, upstream, refuseUrl: guard.refuseUrl })
  const counter = createTokenCounter({
    onFailure: error => log.error({ err: error }, 'tokens could not be counted'),
  })
  const testChannel = createChannelTest({ catalog, upstream, keys, nowMs: Date.now })
  async function test(id: number, options: TestOptions = {}): Promise<ChannelTestResult> {
    const result = await testChannel(id, options)
    await recordTest(db, id, { time: Math.floor(Date.now() / 1000), responseMs: result.latencyMs })
    const channel = catalog.table().channel(id)
    if (result.isGood && channel) {
      recovery.passed({ channel, key: result.key })
      await announce([`rest:${id}:${result.key.index}`])
    }
    return result
  }
  // One worker tests for all: what it finds out is news to the others.
  const recoveryTimer = setInterval(() => {
    if (slot > 0) return
    for (const { channel, key } of recovery.due(catalog.table().channels, RECOVERIES_AT_ONCE))
      testChannel(channel.id, { key })
        .then(({ isGood }) => (isGood ? recovery.passed({ channel, key }) : undefined))
        .catch(error => log.error({ err: error, channel_id: channel.id }, 'a recovery test failed'))
  }, RECOVERY_EVERY_MS)
  recoveryTimer.unref()
  const lag = createLagWatch()

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
    repeats: createIdempotentRequests({
      db,
      keyring,
      nodeId,
      boot: randomUUID(),
      now: () => Math.floor(Date.now() / 1000),
    }),
    desk: {
      settings: catalog.settings,
      isServed: model => catalog.table().resolve(model) !== undefined,
      ambience: createIdsAndClock(Date.now),
    },
    isStopping,
    isOverloaded: request => lag.lagMs() > OVERLOAD_LAG_MS || isBeyond(request),
    nowMs: Date.now,
    random: Math.random,
    ownerOf: type => (type === undefined ? 'custom' : (providerOf(type)?.name.toLowerCase() ?? 'custom')),
    endpointTypes: model => endpointTypes(model, catalog.priceOf([model])?.price),
    onFailure: (error, requestId) => log.error({ err: error, request_id: requestId }, 'a request failed'),
    sessionUser,
    manage,
  } satisfies RelayDeps

  /** What each kind of target means to the relay; the change answers 200 only when this is done. */
  const NEWS: Readonly<Record<string, (ids: readonly number[], named: readonly string[]) => Promise<void>>> =
    {
      async token(ids) {
        for (const id of ids) {
          directory.forgetToken(id)
          await ledger.refresh({ kind: 'token', ownerId: id })
        }
      },
      async user(ids) {
        for (const id of ids) {
          directory.forgetUser(id)
          await ledger.refresh({ kind: 'user', ownerId: id })
        }
      },
      async channel(ids) {
        const before = catalog.table()
        await catalog.refreshChannels(ids)
        const { channel: find } = catalog.table()
        for (const id of ids) {
          const [old, changed] = [before.channel(id), find(id)]
          if (old && changed && !isAskedAlike(old, changed)) health.renew(id)
        }
        health.keep(find)
      },
      /** `rest:7:0`: a test of that channel with that key was good. */
      async rest(_ids, named) {
        for (const [, id, index] of named.map(target => target.split(':'))) {
          const channel = catalog.table().channel(Number(id))
          const key = channel?.keys.find(other => other.index === Number(index)) ?? NO_KEY
          if (channel) health.forgive({ channel, key })
        }
      },
      alias: () => catalog.refreshAliases(),
      price: () => catalog.refreshPrices(),
      settings: () => catalog.refreshSettings(),
    }

  /** News that the store was not there to tell: it is asked again until it has. */
  const untaken = new Set<string>()

  /** Takes the targets of audit records, such as `token:7`. */
  async function takeNews(targets: readonly string[]): Promise<void> {
    try {
      await readNews(targets)
    } catch (error) {
      for (const target of targets) untaken.add(target)
      throw error
    }
  }

  async function readNews(targets: readonly string[]): Promise<void> {
    const byKind = Map.groupBy(new Set(targets), target => target.split(':')[0] ?? '')
    for (const [kind, named] of byKind) {
      const ids = named.map(target => Number(target.split(':')[1])).filter(Number.isSafeInteger)
      await NEWS[kind]?.(ids, named)
    }
  }

  async function takeUntaken(): Promise<void> {
    const targets = [...untaken]
    untaken.clear()
    if (targets.length > 0) await takeNews(targets)
  }

  let isLooking = false
  /** A price may be set for a moment that has yet to come. Never two looks at once: a store that hangs would gather them. */
  async function look(): Promise<void> {
    if (isLooking) return
    isLooking = true
    try {
      await takeUntaken()
      if (slot === 0) await activateDuePrices(db, Math.floor(Date.now() / 1000))
      await catalog.refreshPrices()
    } catch (error) {
      log.error({ err: error }, 'news could not be read; the next second tries again')
    } finally {
      isLooking = false
    }
  }
  const lookTimer = setInterval(look, LOOK_EVERY_MS)
  lookTimer.unref()

  /** Done when every worker has taken it. */
  async function announce(targets: readonly string[]): Promise<void> {
    await Promise.all([takeNews(targets), peers.tellOthers({ name: 'news', input: targets })])
  }

  async function surrender(account: AccountName): Promise<void> {
    await Promise.all([ledger.surrender(account), peers.tellOthers({ name: 'surrender', input: account })])
  }

  async function barrier(): Promise<void> {
    await Promise.all([ledger.barrier(), peers.tellOthers({ name: 'apply', input: null })])
  }

  /** Whether every worker has brought the store up to now, in time. */
  async function catchUp(account?: AccountName): Promise<boolean> {
    const late = new AbortController()
    const caughtUp = (account ? surrender(account) : barrier()).then(() => true)
    const isLate = delay(CATCH_UP_MS, false, { signal: late.signal, ref: false })
    try {
      return await Promise.race([caughtUp, isLate])
    } finally {
      // Whoever lost the race has nobody left to tell.
      isLate.catch(() => false)
      caughtUp.catch(() => false)
      late.abort()
    }
  }

  const videos = createVideos({
    ...deps,
    db,
    engine,
    keyring,
    nodeId,
    vendor: createVendor({ upstream, keys, nowMs: deps.nowMs }),
    surrender,
    doubtMs: config.videoDoubtS * 1000,
    deadlineMs: config.videoDeadlineS * 1000,
    basePath: config.basePath,
    onTrouble: (error, message, videoId) => log.warn({ err: error, video_id: videoId }, message),
  })

  const listener = createRelay(deps, videos)
  peers.serve({
    news: takeNews,
    apply: ledger.barrier,
    surrender: ledger.surrender,
    recall: ledger.yieldTo,
  })

  return {
    listener,
    memory,
    relayFor: createPlayground(listener),
    videos,
    ledger: { catchUp, surrender },
    routes: { explain: createExplain(deps) },
    announce,
    channels: {
      test,
      enabledIds: () =>
        catalog
          .table()
          .channels.filter(({ status }) => status === 1)
          .map(({ id }) => id),
      conditions: () =>
        catalog
          .table()
          .channels.filter(({ status }) => status === 1)
          .map(({ id, keys }) => ({
            id,
            channel: health.ofChannel(id),
            keys: keys
              .map(key => ({ index: key.index, ...health.ofKey(id, key) }))
              .filter(({ state }) => state !== 'ready'),
          })),
    },
    async close(): Promise<void> {
      clearInterval(lookTimer)
      catalog.close()
      clearInterval(recoveryTimer)
      lag.close()
      await videos.close(upstream.close)
      await counter.close()
      // The last anchor names the last entries. What keeps the ledger from applying them is told by its own close.
      await ledger.barrier().then(anchors.close, anchors.close)
      await ledger.close()
      node.release()
    },
  }
}
