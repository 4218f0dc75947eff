import { randomUUID } from 'node:crypto'
import { mkdirSync, readdirSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Logger } from 'pino'
import type { Config } from './config.ts'
import type { ClientAddress } from './http/address.ts'
import { createGuardedLookup } from './http/upstream-address.ts'
import type { Digest } from './identity/credentials.ts'
import type { Keyring } from './identity/keyring.ts'
import { createJournal, type JournalDatabase } from './ledger/journal.ts'
import { openLedger } from './ledger/ledger.ts'
import { endpointTypes } from './manage/endpoint-types.ts'
import { providerOf } from './providers/index.ts'
import { shippedModels, shippedPrice } from './providers/prices/shipped.ts'
import { openCatalog, type RelayChannel } from './relay/catalog.ts'
import { createChannelTest, type TestOptions, type TestResult } from './relay/channel-test.ts'
import { createDirectory } from './relay/directory.ts'
import type { RelayDeps } from './relay/errand.ts'
import { createExplain } from './relay/explain.ts'
import { openTempDir } from './relay/form.ts'
import { createRelay } from './relay/handle.ts'
import { createCatalogSource, findCaller } from './relay/sources.ts'
import { createUpstream } from './relay/upstream.ts'
import { createHealth } from './routing/health.ts'
import { createRates } from './routing/rates.ts'
import { createRecovery } from './routing/recovery.ts'
import type { RoutedKey } from './routing/table.ts'
import { createBooks } from './store/books.ts'
import { decideStatus, recordTest } from './store/channel-status.ts'
import { openDatabase } from './store/sqlite-open.ts'
import type { Store } from './store/store.ts'

const JOURNAL_BUSY_MS = 1_000
/** New work is refused while the event loop lags behind this much: what runs must not suffer. */
const OVERLOAD_LAG_MS = 1_000
const LAG_EVERY_MS = 500
const PRICES_EVERY_MS = 1_000
const RECOVERY_EVERY_MS = 15_000
const RECOVERIES_AT_ONCE = 5

type Deps = {
  readonly config: Config
  readonly log: Logger
  readonly store: Store
  readonly keyring: Keyring
  readonly digest: Digest
  readonly clientAddress: ClientAddress
  readonly manage: RequestListener
  isStopping(): boolean
}

/** A node is a random name kept in its directory, so that its journal is found again. */
function nodeOf(dataDir: string): { id: string; dir: string } {
  const nodes = join(dataDir, 'nodes')
  mkdirSync(nodes, { recursive: true, mode: 0o700 })
  const [id = randomUUID().slice(0, 13)] = readdirSync(nodes)
  const dir = join(nodes, id)
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  return { id, dir }
}

/** How late the event loop is, looked at twice a second. */
function createLagWatch() {
  const histogram = monitorEventLoopDelay({ resolution: 20 })
  histogram.enable()
  let lagMs = 0
  const timer = setInterval(() => {
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

/** The relay with its books, and how news from the management side reaches it. */
export async function buildRelay({
  config,
  log,
  store,
  keyring,
  digest,
  clientAddress,
  manage,
  isStopping,
}: Deps) {
  const { db, engine } = store
  const node = nodeOf(config.dataDir)
  const journal = createJournal({
    dir: node.dir,
    fullSync: config.durability === 'full',
    nowMs: Date.now,
    open: path =>
      openDatabase(path, { readOnly: false, timeoutMs: JOURNAL_BUSY_MS }) as unknown as JournalDatabase,
  })
  const ledger = await openLedger({
    nodeId: node.id,
    journal,
    books: createBooks(db, engine),
    nowMs: Date.now,
    onFailure: (error, message) => log.error({ err: error }, message),
  })
  // Built on first use, which must not be somebody's request.
  shippedModels()
  const directory = createDirectory({ find: findCaller({ db, digest }) })
  const catalog = await openCatalog(
    createCatalogSource({
      db,
      keyring,
      digest,
      shippedPrice,
      now: () => Math.floor(Date.now() / 1000),
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
  const rates = createRates({ nowMs: Date.now })
  const upstream = createUpstream({
    lookup: createGuardedLookup({ allowPrivate: config.privateUpstreams === 'allow' }),
  })
  const testChannel = createChannelTest({ catalog, upstream, nowMs: Date.now })
  async function test(id: number, options: TestOptions = {}): Promise<TestResult> {
    const result = await testChannel(id, options)
    await recordTest(db, id, Math.floor(Date.now() / 1000), result.latencyMs)
    const channel = catalog.table().channel(id)
    if (result.isGood && channel) recovery.passed({ channel, key: result.key })
    return result
  }
  const recoveryTimer = setInterval(() => {
    for (const { channel, key } of recovery.due(catalog.table().channels, RECOVERIES_AT_ONCE))
      testChannel(channel.id, { key })
        .then(({ isGood }) => (isGood ? recovery.passed({ channel, key }) : undefined))
        .catch(error => log.error({ err: error, channel_id: channel.id }, 'a recovery test failed'))
  }, RECOVERY_EVERY_MS)
  recoveryTimer.unref()
  const lag = createLagWatch()
  // A price may be set for a moment that has yet to come.
  const priceTimer = setInterval(
    () => catalog.refreshPrices().catch(error => log.error({ err: error }, 'prices could not be read')),
    PRICES_EVERY_MS,
  )
  priceTimer.unref()

  const deps = {
    directory,
    catalog,
    ledger,
    health,
    rates,
    upstream,
    clientAddress,
    maxBodyBytes: config.maxBodyMb * 1_048_576,
    tempDir: openTempDir(config.dataDir),
    desk: { settings: catalog.settings, isServed: model => catalog.table().resolve(model) !== undefined },
    isStopping,
    isOverloaded: () => lag.lagMs() > OVERLOAD_LAG_MS,
    nowMs: Date.now,
    random: Math.random,
    ownerOf: type => (type === undefined ? 'custom' : (providerOf(type)?.name.toLowerCase() ?? 'custom')),
    endpointTypes: model => endpointTypes(model, catalog.priceOf([model])?.price),
    onFailure: (error, requestId) => log.error({ err: error, request_id: requestId }, 'a request failed'),
    manage,
  } satisfies RelayDeps

  /** What each kind of target means to the relay; the change answers 200 only when this is done. */
  const NEWS: Readonly<Record<string, (ids: readonly number[]) => Promise<void>>> = {
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
      await catalog.refreshChannels(ids)
      health.keep(id => catalog.table().channel(id))
    },
    alias: () => catalog.refreshAliases(),
    price: () => catalog.refreshPrices(),
    settings: () => catalog.refreshSettings(),
  }

  /** Takes the targets of audit records, such as `token:7`. */
  async function announce(targets: readonly string[]): Promise<void> {
    const byKind = Map.groupBy(new Set(targets), target => target.split(':')[0] ?? '')
    for (const [kind, named] of byKind) {
      const ids = named.map(target => Number(target.split(':')[1])).filter(Number.isSafeInteger)
      await NEWS[kind]?.(ids)
    }
  }

  return {
    listener: createRelay(deps),
    ledger,
    routes: { explain: createExplain(deps) },
    announce,
    channels: {
      test,
      enabledIds: () =>
        catalog
          .table()
          .channels.filter(({ status }) => status === 1)
          .map(({ id }) => id),
    },
    async close(): Promise<void> {
      clearInterval(priceTimer)
      clearInterval(recoveryTimer)
      lag.close()
      await upstream.close()
      await ledger.close()
    },
  }
}
