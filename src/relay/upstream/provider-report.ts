import type { AttemptOutcome } from '../../routing/health.ts'
import { upstreamError } from '../answer/upstream-error.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { AttemptFailure } from './failure.ts'

/**
 * The error response of an attempt that failed, from the provider or from an override in its place. Stored with the request
 * and shown to administrators.
 */
export type ProviderReport = {
  readonly status: number
  readonly code?: string
  readonly message?: string
  readonly request_id?: string
  readonly retry_after_s?: number
}

const MAX_MESSAGE = 500
const MAX_REQUEST_ID = 128

/** The provider's own request id. */
export const upstreamIdOf = (headers: Readonly<Record<string, unknown>>, { secrets }: RelayChannel) => {
  const id = headers['x-request-id'] ?? headers['request-id']
  return typeof id === 'string' ? secrets.scrub(id).slice(0, MAX_REQUEST_ID) : ''
}

/** Undefined if there is no error response. Secrets, addresses and host names are masked. */
export function providerReport({
  channel,
  status,
  answer,
  error,
  retryAfterS,
}: AttemptFailure): ProviderReport | undefined {
  if (answer === undefined) return undefined
  const { message, body } = upstreamError(answer, channel, error)
  const { code } = body.error
  const requestId = upstreamIdOf(answer.headers, channel)
  return {
    status,
    ...(code !== null && { code: String(code) }),
    message: message.slice(0, MAX_MESSAGE),
    ...(requestId !== '' && { request_id: requestId }),
    ...(retryAfterS !== undefined && { retry_after_s: retryAfterS }),
  }
}

const REASONS = {
  connect: 'connection failed',
  timeout: 'timeout',
  cut: 'connection closed',
  invalid: 'invalid response',
  key: 'unusable key',
  local: 'local resource exhausted',
} as const

/** The outcome of a failed attempt for the health of its channel, with what the provider reported. */
export function healthOutcome(failure: AttemptFailure, report: ProviderReport | undefined): AttemptOutcome {
  const { health } = failure
  if (health.kind === 'ok' || health.kind === 'client') return health
  if (report === undefined) return { ...health, detail: failure.message }
  const { message = '' } = report
  const summary = failureSummary(failure, report)
  return { ...health, detail: message === '' ? summary : `${summary}: ${message}` }
}

/** A code is a short identifier. Anything else may be a message. */
const CODE = /^[\w.-]{1,64}$/

/** The outcome of an attempt in a few words that reveal nothing of the provider's account: `429 rate_limit_exceeded`. */
export function failureSummary(failure: AttemptFailure, report: ProviderReport | undefined): string {
  if (failure.kind !== 'status') return REASONS[failure.kind]
  const { code = '' } = report ?? {}
  return CODE.test(code) && code !== String(failure.status)
    ? `${failure.status} ${code}`
    : String(failure.status)
}
