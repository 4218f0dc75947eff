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
  const sources = new Map<KeyExchangeScheme, TokenSource>()

  /** Token requests use the same connections as other requests to providers, so that the same addresses are refused. */
  async function postForm(url: string, form: string) {
    const outcome = await upstream.exchange({
      url: new URL(url),
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
      body: Buffer.from(form),
      timeouts: TIMEOUTS,
      isStream: false,
      maxAnswerBytes: MAX_TOKEN_BYTES,
    }).outcome
    if (outcome.kind !== 'buffered') throw new Error('the token endpoint did not answer')
    return { status: outcome.status, body: outcome.body }
  }

  function sourceOf(scheme: KeyExchangeScheme): TokenSource | undefined {
    const existing = sources.get(scheme)
    if (existing) return existing
    const created = scheme.createTokens?.({ nowMs, postForm, refuseUrl })
    if (created) sources.set(scheme, created)
    return created
  }

  return {
    /** The headers that replace the key; none if the key itself is sent, or if it signs each request. */
    async headersFor({ exchange }: Provider, key: string): Promise<Readonly<Record<string, string>>> {
      const source = exchange?.takes(key) === true ? sourceOf(exchange) : undefined
      return source === undefined ? {} : { authorization: `Bearer ${await source.tokenFor(key)}` }
    },
    /** Called for a token that the provider rejected before its expiry. */
    forget(key: string): void {
      for (const source of sources.values()) source.forget(key)
    },
  }
}

export type KeyExchange = ReturnType<typeof createKeyExchange>
