import { NO_KEY, type RoutedChannel, type RoutedKey } from '../routing/table.ts'

const REFRESH_EVERY_MS = 1_000

/** The caches of the relay, which are read again after a change in the store. */
export type Caches<C extends RoutedChannel> = {
  readonly callers: { forgetToken(id: number): void; forgetUser(id: number): void }
  readonly ledger: { refresh(account: { kind: 'token' | 'user'; ownerId: number }): Promise<void> }
  readonly catalog: {
    table(): { channel(id: number): C | undefined }
    refreshChannels(ids: readonly number[]): Promise<void>
    refreshAliases(): Promise<void>
    refreshPrices(): Promise<void>
    refreshSettings(): Promise<void>
  }
  readonly health: {
    forgetChannel(channelId: number): void
    prune(find: (channelId: number) => C | undefined): void
    endCooldown(used: { channel: C; key: RoutedKey }): void
  }
  /** Whether a changed channel still sends the same requests to the same destination. */
  isSameUpstream(before: C, after: C): boolean
}

export type InvalidationDeps<C extends RoutedChannel> = Caches<C> & {
  /** Resolves when every other worker has invalidated the targets. */
  broadcast(targets: readonly string[]): Promise<void>
  /** Activates prices whose effective time has come. */
  activatePrices(): Promise<void>
  onFailure(error: unknown): void
}

/** The target that a successful channel test announces, to end the cooldown of the channel and key. */
export const cooldownTarget = (channelId: number, key: RoutedKey) => `cooldown:${channelId}:${key.index}`

/**
 * Cache invalidation by broadcast (ADR 5): a change in the store announces its targets, such as `token:7`. Every worker
 * reads them again before the management API responds with 200.
 */
export function createInvalidation<C extends RoutedChannel>(deps: InvalidationDeps<C>) {
  const { callers, ledger, catalog, health } = deps

  const INVALIDATE: Readonly<
    Record<string, (ids: readonly number[], targets: readonly string[]) => Promise<void>>
  > = {
    async token(ids) {
      for (const id of ids) {
        callers.forgetToken(id)
        await ledger.refresh({ kind: 'token', ownerId: id })
      }
    },
    async user(ids) {
      for (const id of ids) {
        callers.forgetUser(id)
        await ledger.refresh({ kind: 'user', ownerId: id })
      }
    },
    async channel(ids) {
      const previous = catalog.table()
      await catalog.refreshChannels(ids)
      const current = catalog.table()
      for (const id of ids) {
        const [before, after] = [previous.channel(id), current.channel(id)]
        if (before && after && !deps.isSameUpstream(before, after)) health.forgetChannel(id)
      }
      health.prune(current.channel)
    },
    async cooldown(_ids, targets) {
      for (const [, id, index] of targets.map(target => target.split(':'))) {
        const channel = catalog.table().channel(Number(id))
        const key = channel?.keys.find(other => other.index === Number(index)) ?? NO_KEY
        if (channel) health.endCooldown({ channel, key })
      }
    },
    alias: () => catalog.refreshAliases(),
    price: () => catalog.refreshPrices(),
    settings: () => catalog.refreshSettings(),
  }

  /** Targets that could not be read because the store was unavailable. They are retried every second. */
  const pending = new Set<string>()

  async function read(targets: readonly string[]): Promise<void> {
    const byKind = Map.groupBy(new Set(targets), target => target.split(':')[0] ?? '')
    for (const [kind, ofKind] of byKind) {
      const ids = ofKind.map(target => Number(target.split(':')[1])).filter(Number.isSafeInteger)
      await INVALIDATE[kind]?.(ids, ofKind)
    }
  }

  async function invalidate(targets: readonly string[]): Promise<void> {
    try {
      await read(targets)
    } catch (error) {
      for (const target of targets) pending.add(target)
      throw error
    }
  }

  async function retryPending(): Promise<void> {
    const targets = [...pending]
    pending.clear()
    if (targets.length > 0) await invalidate(targets)
  }

  let isRefreshing = false
  /** Runs never overlap: they would pile up while the store hangs. */
  async function refresh(): Promise<void> {
    if (isRefreshing) return
    isRefreshing = true
    try {
      await retryPending()
      await deps.activatePrices()
      await catalog.refreshPrices()
    } catch (error) {
      deps.onFailure(error)
    } finally {
      isRefreshing = false
    }
  }

  let timer: NodeJS.Timeout | undefined
  return {
    invalidate,
    /** Resolves when every worker has invalidated the targets. */
    async announce(targets: readonly string[]): Promise<void> {
      await Promise.all([invalidate(targets), deps.broadcast(targets)])
    },
    refresh,
    start(): void {
      timer = setInterval(refresh, REFRESH_EVERY_MS)
      timer.unref()
    },
    close: () => clearInterval(timer),
  }
}
