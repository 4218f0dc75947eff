import type { Shortage } from '../../domain/shortage.ts'
import type { Budget } from '../../http/budget.ts'
import type { Network } from '../../http/network.ts'
import type { AddressAuthor } from '../../http/upstream-address.ts'
import { type Client, createClient } from '../../http1/client/client.ts'
import { createDeadlines } from '../../http1/client/deadlines.ts'
import {
  type ExchangeHost,
  ProviderExchange,
  type UpstreamExchange,
  type UpstreamRequest,
  type UrlParts,
} from './exchange.ts'

const KEEP_ALIVE_MS = 30_000
/** Self-hosted servers often close idle connections after five seconds without notice. Reconnecting to them is cheap. */
const PLAIN_KEEP_ALIVE_MS = 4_000

type UpstreamOptions = {
  readonly network: Pick<Network, 'resolver' | 'secureContext' | 'routeOf'>
  /**
   * Connections per origin. As many as clients may have: an answer occupies its connection while it runs, and a request
   * that waited for one would look like a slow provider.
   */
  readonly connections: number
  /** The memory budget of all bodies in this process; buffered answers count against it while they are received. */
  readonly memory: Budget
  /** Whether this process can open another file or socket. */
  hasDescriptors(): boolean
  onShortage(shortage: Shortage): void
}

/** Exchanges requests with providers over persistent connections. Redirects are not followed. */
export function createUpstream(options: UpstreamOptions) {
  const { network, memory, hasDescriptors, onShortage } = options
  const deadlines = createDeadlines()
  const createClientFor = (author: AddressAuthor) =>
    createClient({
      resolver: network.resolver(author),
      secureContext: network.secureContext,
      deadlines,
      maxConnections: options.connections,
      keepAliveMs: origin => (origin.startsWith('https:') ? KEEP_ALIVE_MS : PLAIN_KEEP_ALIVE_MS),
    })
  /** Addresses that a provider names must not reuse a connection to an administrator's address. */
  const clients: Readonly<Record<AddressAuthor, Client>> = {
    administrator: createClientFor('administrator'),
    provider: createClientFor('provider'),
  }
  const urlParts = new WeakMap<URL, UrlParts>()

  /** Cached, because the same URLs are used repeatedly and a URL serializes its parts on each access. */
  function partsOf(url: URL): UrlParts {
    const cached = urlParts.get(url)
    if (cached) return cached
    const parts = { origin: url.origin, path: `${url.pathname}${url.search}` }
    urlParts.set(url, parts)
    return parts
  }

  const host: ExchangeHost = {
    deadlines,
    memory,
    hasDescriptors,
    onShortage,
    clientFor: author => clients[author],
    routeOf: network.routeOf,
    partsOf,
  }

  return {
    /** `body`: that of the request, if it is not one of its fields. */
    exchange: (request: UpstreamRequest, body = request.body): UpstreamExchange =>
      new ProviderExchange(host, request, body).start(),
    /** The number of origins with open connections, and those that are not removed yet. */
    originCount: () => clients.administrator.originCount() + clients.provider.originCount(),
    connectionCount: () => clients.administrator.connectionCount() + clients.provider.connectionCount(),
    async close(): Promise<void> {
      clients.administrator.close()
      clients.provider.close()
    },
  }
}

export type Upstream = ReturnType<typeof createUpstream>
