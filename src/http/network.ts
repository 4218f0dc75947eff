import { createHash } from 'node:crypto'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import type { buildConnector } from 'undici'
import { DIRECT, type IpFamily, type ProxyAddress, proxyLabel } from '../domain/channel-network.ts'
import { type ClientProxy, type ClientRoute, endpointOf, type Resolver } from '../http1/client/route.ts'
import { createSocketOpener } from '../http1/client/socket.ts'
import { type AddressGuard, RefusedAddressError } from './address-guard.ts'
import { type ChannelNetwork, readCertificates } from './channel-network.ts'
import type { HostList } from './host-list.ts'
import { uncheckedLookup } from './name-lookup.ts'
import type { AddressAuthor } from './upstream-address.ts'

export type NetworkOptions = {
  readonly guard: AddressGuard
  /** The proxy of all connections to hosts that are not in `noProxy`. */
  readonly proxy?: ProxyAddress | undefined
  readonly noProxy?: HostList
  /** Certificates (PEM) that are trusted in addition. */
  readonly ca?: string | undefined
  /** Those of the guard; for reports. */
  readonly dnsServers?: readonly string[]
  readonly ipFamily?: IpFamily | undefined
}

/** What `POST /api/route/explain` shows about the connections of a channel. */
export type NetworkReport = {
  readonly proxy: string | null
  readonly proxy_source: 'channel' | 'gateway' | null
  readonly names_resolved_by: 'gateway' | 'proxy'
  readonly dns_servers: readonly string[]
  readonly ip_family: IpFamily | 'system'
  readonly ca: readonly ('gateway' | 'channel')[]
  readonly client_cert: string | null
  readonly fault: string | null
}

type ConnectorOptions = {
  readonly timeoutMs: number
  readonly channel?: ChannelNetwork | undefined
  /** The operator chose the address, so it may be any. */
  readonly isUnchecked?: boolean
}

/** Routes of one process are remembered up to this number. */
const MAX_ROUTES = 1_000
const MAX_CONTEXTS = 200

const faultText = ({ fault }: ChannelNetwork) =>
  fault ? `setting.${fault.name} ${fault.message}` : undefined

const digestOf = (parts: readonly unknown[]) =>
  createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22)

/** A cache that is emptied when it is full. */
function remember<T>(cache: Map<string, T>, key: string, max: number, make: () => T): T {
  const cached = cache.get(key)
  if (cached !== undefined || cache.has(key)) return cached as T
  const value = make()
  if (cache.size >= max) cache.clear()
  cache.set(key, value)
  return value
}

/** Decides how the gateway connects: proxies, trusted certificates, client certificates and names (docs/operating/network.md: Proxies). */
export function createNetwork(options: NetworkOptions) {
  const { guard, proxy, noProxy = () => false, ca, dnsServers = [], ipFamily } = options
  const contexts = new Map<string, SecureContext>()
  const ownRoutes = new Map<string, ClientRoute | undefined>()
  const channelRoutes = new WeakMap<ChannelNetwork, Map<string, ClientRoute | undefined>>()

  const createContext = (extraCa: readonly string[], client: ChannelNetwork['client']) =>
    createSecureContext({
      ...(extraCa.length > 0 && { ca: [...getCACertificates('default'), ...extraCa] }),
      ...client,
    })

  const secureContext = ca === undefined ? undefined : createContext([ca], undefined)

  /** The context of a channel with certificates of its own; undefined: that of the gateway. */
  function contextOf(channel: ChannelNetwork | undefined, author: AddressAuthor): SecureContext | undefined {
    // The client certificate is for the address that an administrator chose.
    const client = author === 'administrator' ? channel?.client : undefined
    if (channel?.ca === undefined && client === undefined) return undefined
    const extraCa = [ca, channel?.ca].filter(each => each !== undefined)
    return remember(contexts, digestOf([extraCa, client]), MAX_CONTEXTS, () => createContext(extraCa, client))
  }

  /** The proxy of a connection, and who chose it. */
  function proxyOf(origin: string, channel: ChannelNetwork | undefined) {
    if (channel?.proxy === DIRECT) return undefined
    if (channel?.proxy !== undefined) return { address: channel.proxy, source: 'channel' as const }
    if (proxy === undefined) return undefined
    const { hostname, port } = endpointOf(origin)
    return noProxy(hostname, port) ? undefined : { address: proxy, source: 'gateway' as const }
  }

  /**
   * A proxy that resolves names can reach addresses that the gateway would refuse. Where these matter, the gateway resolves
   * and checks the name, and sends the address to the proxy (docs/operating/network.md: Addresses behind a proxy).
   */
  const resolvesHere = ({ scheme }: ProxyAddress, author: AddressAuthor) =>
    scheme === 'socks5' || author === 'provider' || !guard.policy.allowPrivate

  const unchecked = (family?: IpFamily): Resolver => ({ lookup: uncheckedLookup(guard.names(family)) })

  function clientProxy(
    { address, source }: NonNullable<ReturnType<typeof proxyOf>>,
    author: AddressAuthor,
    family: IpFamily | undefined,
  ): ClientProxy {
    const { scheme, hostname, port, username, password } = address
    // The operator may run the gateway's proxy anywhere. An administrator may not choose every address as a proxy.
    const isFree = source === 'gateway' || guard.policy.allowedProxies?.(hostname, port) === true
    return {
      kind: scheme.startsWith('socks') ? 'socks5' : 'http',
      endpoint: { isTls: scheme === 'https', hostname, port },
      label: proxyLabel(address),
      username,
      password,
      resolvesHere: resolvesHere(address, author),
      resolver: isFree ? unchecked(family) : guard.resolver('administrator', family),
    }
  }

  function makeRoute(
    origin: string,
    author: AddressAuthor,
    channel: ChannelNetwork | undefined,
  ): ClientRoute | undefined {
    const fault = channel && faultText(channel)
    if (fault !== undefined)
      return { name: digestOf([fault]), resolver: { refuse: () => new RefusedAddressError(fault) } }
    const choice = proxyOf(origin, channel)
    const context = contextOf(channel, author)
    const family = channel?.ipFamily
    if (choice === undefined && context === undefined && family === undefined) return undefined
    return {
      name: digestOf([
        choice,
        author,
        context === undefined ? [] : [channel?.ca, author === 'administrator' && channel?.client],
        family,
      ]),
      proxy: choice && clientProxy(choice, author, family),
      secureContext: context,
      resolver: guard.resolver(author, family),
    }
  }

  /** How to connect to an origin; undefined: in the default way. */
  function routeOf(
    origin: string,
    author: AddressAuthor,
    channel: ChannelNetwork | undefined,
  ): ClientRoute | undefined {
    if (channel === undefined && proxy === undefined) return undefined
    let routes = channel === undefined ? ownRoutes : channelRoutes.get(channel)
    if (routes === undefined) {
      routes = new Map()
      channelRoutes.set(channel as ChannelNetwork, routes)
    }
    return remember(routes, `${author} ${origin}`, MAX_ROUTES, () => makeRoute(origin, author, channel))
  }

  const openSocket = createSocketOpener(secureContext)

  /** The connector of undici. */
  function connector({
    timeoutMs,
    channel,
    isUnchecked = false,
  }: ConnectorOptions): buildConnector.connector {
    const checked = guard.resolver('administrator')
    return ({ protocol, hostname, port }, callback) => {
      const host = hostname.includes(':') ? `[${hostname}]` : hostname
      const origin = `${protocol}//${host}${port ? `:${port}` : ''}`
      const route = routeOf(origin, 'administrator', channel)
      const resolver = isUnchecked ? unchecked() : (route?.resolver ?? checked)
      const ownProxy = route?.proxy
      const refusal = resolver.refuse?.(hostname) ?? ownProxy?.resolver.refuse?.(ownProxy.endpoint.hostname)
      if (refusal !== undefined) return callback(refusal, null)
      let isOver = false
      const end = (finish: () => void) => {
        if (isOver) return
        isOver = true
        finish()
      }
      openSocket({
        endpoint: endpointOf(origin),
        route,
        resolver,
        connectMs: timeoutMs,
        reading: undefined,
        session: undefined,
        onSession() {},
        onOpen: socket => end(() => callback(null, socket)),
        onError: error => end(() => callback(error, null)),
        onEnd() {},
        onClose: () => end(() => callback(new Error('the connection was closed'), null)),
      })
    }
  }

  function report(origin: string, channel: ChannelNetwork | undefined): NetworkReport {
    const choice = channel?.fault ? undefined : proxyOf(origin, channel)
    const [certificate] = channel?.client ? (readCertificates(channel.client.cert) ?? []) : []
    const isResolvedHere = choice === undefined || resolvesHere(choice.address, 'administrator')
    return {
      proxy: choice ? proxyLabel(choice.address) : null,
      proxy_source: choice?.source ?? null,
      names_resolved_by: isResolvedHere ? 'gateway' : 'proxy',
      dns_servers: dnsServers,
      ip_family: channel?.ipFamily ?? ipFamily ?? 'system',
      ca: [...(ca ? (['gateway'] as const) : []), ...(channel?.ca ? (['channel'] as const) : [])],
      client_cert: certificate ? certificate.subject.replaceAll('\n', ', ') : null,
      fault: (channel && faultText(channel)) ?? null,
    }
  }

  return { routeOf, secureContext, connector, report, refuseUrl: guard.refuseUrl, resolver: guard.resolver }
}

export type Network = ReturnType<typeof createNetwork>
