import { ALL_CONFIRMED, CONFIRM_WITHIN_MS, type Confirmation } from '../domain/node.ts'
import { NO_KEY, type RoutedChannel, type RoutedKey } from '../routing/table.ts'

const REFRESH_EVERY_MS = 1_000

/** The caches of the relay, which are read again after a change in the store. */
export type Caches<C extends RoutedChannel> = {
  readonly callers: { forgetToken(id: number): void; forgetUser(id: number): void; forgetAll(): void }
  readonly ledger: {
    refresh(account: { kind: 'token' | 'user'; ownerId: number }): Promise<void>
    refreshAll(): Promise<void>
  }
  readonly catalog: {
    table(): { channel(id: number): C | undefined }
    refreshChannels(ids: readonly number[]): Promise<void>
    refreshAllChannels(): Promise<void>
    refreshAliases(): Promise<void>
    refreshCanaries(): Promise<void>
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
  /** Waits until the nodes of other machines have taken the change, at most this long. */
  confirm(withinMs: number): Promise<Confirmation>
  /** These audit records concern changes that are invalidated now. */
  onApplied(positions: readonly number[]): void
  /** Activates prices whose effective time has come. */
  activatePrices(): Promise<void>
  onFailure(error: unknown): void
}

/** The target that a successful channel test announces, to end the cooldown of the channel and key. */
export const cooldownTarget = (channelId: number, key: RoutedKey) => `cooldown:${channelId}:${key.id}`

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
      for (const [, id, keyId] of targets.map(target => target.split(':'))) {
        const channel = catalog.table().channel(Number(id))
        const key = channel?.keys.find(other => other.id === Number(keyId)) ?? NO_KEY
        if (channel) health.endCooldown({ channel, key })
      }
    },
    alias: () => catalog.refreshAliases(),
    // One audit record for many new channels. Of other new rows nothing is cached.
    import: () => catalog.refreshAllChannels(),
    async canary() {
      await catalog.refreshCanaries()
      health.prune(catalog.table().channel)
    },
    price: () => catalog.refreshPrices(),
    settings: () => catalog.refreshSettings(),
    // Last in the list of targets, so it is reached only when all others have been read again.
    async audit(ids) {
      deps.onApplied(ids)
    },
    async all() {
      callers.forgetAll()
      await ledger.refreshAll()
      await catalog.refreshSettings()
      await catalog.refreshAliases()
      await catalog.refreshPrices()
      await catalog.refreshAllChannels()
      health.prune(catalog.table().channel)
    },
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
    /**
     * Resolves when every worker has invalidated the targets, and every node of other machines too, or when the time for that
     * is over. With 0 it does not wait for other machines.
     */
    async announce(targets: readonly string[], withinMs = CONFIRM_WITHIN_MS): Promise<Confirmation> {
      const [confirmation] = await Promise.all([
        withinMs > 0 ? deps.confirm(withinMs) : ALL_CONFIRMED,
        invalidate(targets),
        deps.broadcast(targets),
      ])
      return confirmation
    },
    refresh,
    /** Reads everything again with the next refresh, because the store has lost changes. */
    invalidateAll: () => void pending.add('all'),
    start(): void {
      timer = setInterval(refresh, REFRESH_EVERY_MS)
      timer.unref()
    },
    close: () => clearInterval(timer),
  }
}
