import type { ChatError } from '../../chat/hub/hub.ts'
import { outboundOf } from '../../chat/index.ts'
import type { Shortage } from '../../domain/shortage.ts'
import type { ErrorResponse } from '../../override/edit.ts'
import type { AttemptOutcome as HealthOutcome } from '../../routing/health.ts'
import { parsedOrNothing } from '../../wire/json-bounds.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import { type BufferedResponse, type ConnectionFailure, mayBeBilled } from './exchange.ts'

/** The failure of an attempt. */
export type AttemptFailure = {
  readonly channel: RelayChannel
  /** `status`: there is an error response; otherwise the reason why there is no valid response. */
  readonly kind: ConnectionFailure['reason'] | 'status'
  /** The status after the channel's status mapping; 0 without a valid response. */
  readonly status: number
  readonly message: string
  readonly retryAfterS: number | undefined
  /** The provider may bill the attempt although no answer was delivered. */
  readonly mayBeBilled: boolean
  /** The outcome for the health of the channel. */
  readonly health: HealthOutcome
  /** The next channel may be tried; false: the client gets this failure. */
  readonly isRetryable: boolean
  readonly answer: BufferedResponse | undefined
  /** The possible cost of the attempt in nanodollars; absent: estimate it from the client's request. */
  readonly estimate?: number
  /** The resource that this machine has run out of, if that is the reason. */
  readonly shortage?: Shortage | undefined
  /** The decoded error, if the provider's format is known. */
  readonly error?: ChatError | undefined
}

/** The 4xx that are retried on the next channel (docs/reference/routing.md: Retries). */
const NEXT_CHANNEL = new Set([401, 402, 403, 404, 405, 408, 409, 425, 429])
const MAX_RETRY_S = 300

/** `Date.parse` accepts almost anything with a number in it: `-5`, `5, 10`. */
const DATE = /^(?:[A-Z][a-z]{2,8},? |\d{4}-\d{2}-\d{2}T).*\d{2}:\d{2}:\d{2}/

/** Parses seconds or a date; anything else counts as absent. */
export function readRetryAfter(header: string | string[] | undefined, nowMs: number): number | undefined {
  const text = (Array.isArray(header) ? header[0] : header)?.trim()
  if (!text) return undefined
  const isDate = DATE.test(text)
  const seconds = isDate
    ? (Date.parse(text) - nowMs) / 1000
    : /^\d+(\.\d+)?$/.test(text)
      ? Number(text)
      : Number.NaN
  return Number.isFinite(seconds) ? Math.min(MAX_RETRY_S, Math.max(0, Math.ceil(seconds))) : undefined
}

export function connectionFailure(channel: RelayChannel, failure: ConnectionFailure): AttemptFailure {
  const { reason, message, shortage, othersMayBeBilled = false } = failure
  return {
    channel,
    kind: reason,
    status: 0,
    message,
    retryAfterS: undefined,
    mayBeBilled: othersMayBeBilled || mayBeBilled(failure),
    health: connectionHealth(reason),
    // Another channel would need the same resource.
    isRetryable: reason !== 'local',
    answer: undefined,
    shortage,
  }
}

function connectionHealth(reason: ConnectionFailure['reason']): HealthOutcome {
  if (reason === 'connect' || reason === 'timeout') return { kind: reason }
  // A shortage on this machine does not affect the health of the channel.
  if (reason === 'local') return { kind: 'client' }
  return { kind: reason === 'key' ? 'auth' : '5xx' }
}

/** An answer with a success status and an invalid body. */
export const invalidAnswer = (channel: RelayChannel, message: string): AttemptFailure =>
  connectionFailure(channel, {
    kind: 'failure',
    reason: 'invalid',
    message: channel.secrets.scrub(message),
    wasSent: true,
  })

const parsed = (body: Buffer): unknown => parsedOrNothing(body.toString('utf8'))

/** Decodes an error in the format of the request; undefined if the format has no decoder. */
function errorIn(
  { status, headers, body }: BufferedResponse,
  format: string | undefined,
  document: unknown = parsed(body),
): ChatError | undefined {
  const header = (name: string) => {
    const value = headers[name]
    return typeof value === 'string' ? value : undefined
  }
  return outboundOf(format ?? '')?.decodeError({ status, body: document, header })
}

type FailureContext = { readonly nowMs: number; readonly format: string | undefined }

/** A failure by status. The status mapping of the channel decides about retries and the client's status. */
export function statusFailure(
  channel: RelayChannel,
  response: BufferedResponse,
  { nowMs, format }: FailureContext,
): AttemptFailure {
  const status = channel.statusMapping.get(response.status) ?? response.status
  const body = parsed(response.body)
  const error = errorIn(response, format, body)
  // Some vendors report the delay in the body only.
  const retryAfterS = readRetryAfter(response.headers['retry-after'] ?? error?.retryAfterS?.toString(), nowMs)
  const isMapped = status !== response.status
  // An administrator's status mapping overrides the rules of the provider.
  const isKeyError = !isMapped && (channel.provider.isKeyError?.(status, body) ?? false)
  return {
    channel,
    kind: 'status',
    status,
    message: isMapped ? `status ${response.status}, mapped to ${status}` : `status ${status}`,
    retryAfterS,
    mayBeBilled: response.othersMayBeBilled ?? false,
    health: healthOf(status, isKeyError, retryAfterS),
    isRetryable: isKeyError || NEXT_CHANNEL.has(status) || status >= 500 || status < 400,
    answer: isMapped ? { ...response, status } : response,
    error: isMapped ? undefined : error,
  }
}

/** An override of the channel rejected the request. Nothing was sent, so the channel's health does not change. */
export const overrideFailure = (channel: RelayChannel, message: string): AttemptFailure => ({
  channel,
  kind: 'invalid',
  status: 0,
  message,
  retryAfterS: undefined,
  mayBeBilled: false,
  health: { kind: 'client' },
  isRetryable: true,
  answer: undefined,
})

/** An error response that an override returns. Nothing is sent to the provider. */
export const errorResponseFailure = (channel: RelayChannel, error: ErrorResponse): AttemptFailure => {
  const { status, message, type, code, isFinal } = error
  const body = Buffer.from(JSON.stringify({ error: { message, type, param: null, code } }))
  return {
    ...overrideFailure(channel, message),
    kind: 'status',
    status,
    isRetryable: !isFinal,
    answer: { kind: 'buffered', status, headers: {}, body },
  }
}

function healthOf(status: number, isKeyError: boolean, retryAfterS: number | undefined): HealthOutcome {
  if (status === 401 || status === 403 || isKeyError) return { kind: 'auth' }
  if (status === 402) return { kind: 'credit' }
  if (status === 429)
    return { kind: '429', retryAfterMs: retryAfterS === undefined ? undefined : retryAfterS * 1000 }
  if (status === 408) return { kind: 'timeout' }
  if (status >= 500 || status < 400) return { kind: '5xx' }
  return { kind: 'client' }
}
