import { Pool } from 'undici'
import type { AddressGuard } from '../../http/address-guard.ts'
import type { AddressAuthor } from '../../http/upstream-address.ts'

const MAX_HEADER_BYTES = 16 * 1024
const KEEP_ALIVE_MS = 30_000
/** Self-hosted servers often close idle connections after five seconds without notice. Reconnecting to them is cheap. */
const PLAIN_KEEP_ALIVE_MS = 4_000
/**
 * Counting a pool's connections takes time in proportion to their number, so connections that close together are counted
 * once.
 */
const UNUSED_CHECK_MS = 1_000

export type PoolsOptions = {
  readonly connector: AddressGuard['connector']
  /**
   * Connections per origin. As many as clients may have: an answer occupies its connection while it runs, and a request
   * that waited for one would look like a slow provider.
   */
  readonly connections: number
}

/**
 * One pool per origin and connect timeout, with keep-alive and without pipelining. Addresses that a provider names have
 * separate pools: they must not reuse a connection to an administrator's address. A pool without connections and requests
 * is removed.
 */
export function createPools({ connector, connections }: PoolsOptions) {
  const pools: Readonly<Record<AddressAuthor, Map<string, Pool>>> = {
    administrator: new Map(),
    provider: new Map(),
  }

  function removeWhenUnused(name: string, pool: Pool, author: AddressAuthor): void {
    let isCheckDue = false
    const check = () => {
      isCheckDue = false
      const { connected, size } = pool.stats
      if (connected > 0 || size > 0 || pool.destroyed) return
      pools[author].delete(name)
      void pool.close()
    }
    const checkSoon = () => {
      if (isCheckDue) return
      isCheckDue = true
      setTimeout(check, UNUSED_CHECK_MS).unref()
    }
    pool.on('disconnect', checkSoon).on('connectionError', checkSoon)
  }

  return {
    poolOf(origin: string, connectMs: number, author: AddressAuthor = 'administrator'): Pool {
      const name = `${origin} ${connectMs}`
      const existing = pools[author].get(name)
      if (existing) return existing
      const pool = new Pool(origin, {
        allowH2: false,
        pipelining: 1,
        connections,
        keepAliveTimeout: origin.startsWith('https:') ? KEEP_ALIVE_MS : PLAIN_KEEP_ALIVE_MS,
        maxHeaderSize: MAX_HEADER_BYTES,
        connect: connector({ timeoutMs: connectMs, author }),
      })
      pools[author].set(name, pool)
      removeWhenUnused(name, pool, author)
      return pool
    },
    count: () => pools.administrator.size + pools.provider.size,
    async close(): Promise<void> {
      const all = [...pools.administrator.values(), ...pools.provider.values()]
      await Promise.all(all.map(pool => pool.destroy()))
    },
  }
}
