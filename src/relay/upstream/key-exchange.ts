import type { ChannelNetwork } from '../../http/channel-network.ts'
import type { KeyExchangeScheme, Provider, TokenSource } from '../../providers/index.ts'
import type { Upstream } from './upstream.ts'

/** The body of a token response is parsed synchronously, so it must be short. */
const MAX_TOKEN_BYTES = 65_536
const TIMEOUTS = { connectMs: 10_000, firstByteMs: 15_000, idleMs: 15_000, totalMs: 20_000 } as const

type KeyExchangeDeps = {
  nowMs(): number
  readonly upstream: Pick<Upstream, 'exchange'>
  /** The reason why the gateway must not connect to a URL; undefined: it may. */
  refuseUrl(url: string): string | undefined
}

/** Exchanges keys that must not be sent themselves for tokens, by the rules of each provider. */
export function createKeyExchange({ nowMs, upstream, refuseUrl }: KeyExchangeDeps) {
  type Sources = Map<KeyExchangeScheme, TokenSource>
  const sources: Sources = new Map()
  /** Channels that connect in another way exchange their keys in that way too. */
  const sourcesOf = new WeakMap<ChannelNetwork, Sources>()

  /** Token requests use the same connections as other requests to providers, so that the same addresses are refused. */
  async function postForm(network: ChannelNetwork | undefined, url: string, form: string) {
    const outcome = await upstream.exchange({
      url: new URL(url),
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
      body: Buffer.from(form),
      timeouts: TIMEOUTS,
      isStream: false,
      maxAnswerBytes: MAX_TOKEN_BYTES,
      network,
    }).outcome
    if (outcome.kind !== 'buffered') throw new Error('the token endpoint did not answer')
    return { status: outcome.status, body: outcome.body }
  }

  function sourcesFor(network: ChannelNetwork | undefined): Sources {
    if (network === undefined) return sources
    const existing = sourcesOf.get(network) ?? new Map()
    sourcesOf.set(network, existing)
    return existing
  }

  function sourceOf(scheme: KeyExchangeScheme, network: ChannelNetwork | undefined): TokenSource | undefined {
    const own = sourcesFor(network)
    const existing = own.get(scheme)
    if (existing) return existing
    const created = scheme.createTokens?.({
      nowMs,
      postForm: (url, form) => postForm(network, url, form),
      refuseUrl,
    })
    if (created) own.set(scheme, created)
    return created
  }

  return {
    /** The headers that replace the key; none if the key itself is sent, or if it signs each request. */
    async headersFor(
      { exchange }: Provider,
      key: string,
      network?: ChannelNetwork,
    ): Promise<Readonly<Record<string, string>>> {
      const source = exchange?.takes(key) === true ? sourceOf(exchange, network) : undefined
      return source === undefined ? {} : { authorization: `Bearer ${await source.tokenFor(key)}` }
    },
    /** Called for a token that the provider rejected before its expiry. */
    forget(key: string, network?: ChannelNetwork): void {
      for (const source of sourcesFor(network).values()) source.forget(key)
    },
  }
}

export type KeyExchange = ReturnType<typeof createKeyExchange>
