import { promisify } from 'node:util'
import { gzip as gzipWithCallback } from 'node:zlib'
import type { Agent, buildConnector } from 'undici'

const gzip = promisify(gzipWithCallback)
export const CONNECT_TIMEOUT_MS = 10_000
const MAX_RETRY_AFTER_S = 300
/** The statuses after which the OTLP specification allows a retry. */
const RETRYABLE = new Set([429, 502, 503, 504])

/** The outcome of one POST. `failed`: the receiver may accept the same body later. `refused`: it never will. */
export type PostOutcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'failed'; readonly reason: string; readonly retryAfterMs: number | undefined }

export type HttpTarget = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly isCompressed: boolean
  /** How to connect; absent: directly. */
  readonly connect?: buildConnector.connector | undefined
}

/** Seconds only: a date depends on the clock of the receiver. */
function retryAfterMs(header: string | string[] | undefined): number | undefined {
  const text = typeof header === 'string' ? header.trim() : ''
  return /^\d{1,9}$/.test(text) ? Math.min(Number(text), MAX_RETRY_AFTER_S) * 1000 : undefined
}

/**
 * Posts to a receiver that the operator has configured in the environment. Its address is not checked: the operator may
 * run it anywhere. Redirects are not followed.
 */
export function createHttpDelivery(
  { url, headers, timeoutMs, isCompressed, connect }: HttpTarget,
  contentType: string,
) {
  // Loaded on demand: most gateways send nothing.
  const loadUndici = () => import('undici')
  let agent: Agent | undefined
  const allHeaders = {
    'user-agent': 'sluice',
    ...headers,
    'content-type': contentType,
    ...(isCompressed && { 'content-encoding': 'gzip' }),
  }

  return {
    async deliver(body: Buffer): Promise<PostOutcome> {
      try {
        const { Agent, request } = await loadUndici()
        agent ??= new Agent({
          allowH2: false,
          connections: 1,
          connect: connect ?? { timeout: CONNECT_TIMEOUT_MS },
        })
        const {
          statusCode,
          headers: answered,
          body: answer,
        } = await request(url, {
          dispatcher: agent,
          method: 'POST',
          headers: allHeaders,
          body: isCompressed ? await gzip(body) : body,
          signal: AbortSignal.timeout(timeoutMs),
        })
        await answer.dump()
        if (statusCode >= 200 && statusCode < 300) return { kind: 'delivered' }
        const reason = `status ${statusCode}`
        if (!RETRYABLE.has(statusCode)) return { kind: 'refused', reason }
        return { kind: 'failed', reason, retryAfterMs: retryAfterMs(answered['retry-after']) }
      } catch (error) {
        const { code, name } = error as Error & { code?: unknown }
        const reason = typeof code === 'string' ? code : name
        return { kind: 'failed', reason, retryAfterMs: undefined }
      }
    },
    close: async (): Promise<void> => agent?.destroy(),
  }
}

export type HttpDelivery = ReturnType<typeof createHttpDelivery>
