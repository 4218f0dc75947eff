import type { ChatError } from '../../chat/hub/hub.ts'
import { outboundOf } from '../../chat/index.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Shortage } from '../../domain/shortage.ts'
import { overloaded } from '../../http/budget.ts'
import type { ErrorResponse } from '../../override/edit.ts'
import type { AttemptOutcome as HealthOutcome } from '../../routing/health.ts'
import { parsedOrNothing } from '../../wire/json-bounds.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { ConnectionFailure, WholeResponse } from './upstream.ts'

/** Why an attempt did not answer the request. */
export type AttemptFailure = {
  readonly channel: RelayChannel
  readonly kind: ConnectionFailure['reason'] | 'status'
  readonly status: number
  readonly message: string
  readonly retryAfterS: number | undefined
  /** The provider may have done the work although nobody got it. */
  readonly isInDoubt: boolean
  /** What health makes of it. */
  readonly health: HealthOutcome
  /** Goes to the next channel, or to the client as it is. */
  readonly isRetryable: boolean
  readonly answer: WholeResponse | undefined
  /** What the attempt may have cost, in nanodollars; absent: what any attempt on the channel may cost. */
  readonly estimate?: number
  /** What this machine has run out of, where that is why. */
  readonly shortage?: Shortage | undefined
  /** What the answer says, where the provider's format is known. */
  readonly error?: ChatError | undefined
}

/** The 4xx that are retried on the next channel (docs/reference/routing.md: Retries). */
const NEXT_CHANNEL = new Set([401, 402, 403, 404, 405, 408, 409, 425, 429])
const DEFAULT_RETRY_S = 5
const MAX_RETRY_S = 300

/** `Date.parse` makes a date of almost anything with a number in it: `-5`, `5, 10`. */
const DATE = /^(?:[A-Z][a-z]{2,8},? |\d{4}-\d{2}-\d{2}T).*\d{2}:\d{2}:\d{2}/

/** Seconds or a date; rubbish counts as nothing said. */
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

export function connectionFailure(
  channel: RelayChannel,
  { reason, message, wasSent, shortage }: ConnectionFailure,
): AttemptFailure {
  return {
    channel,
    kind: reason,
    status: 0,
    message,
    retryAfterS: undefined,
    isInDoubt: wasSent && reason !== 'connect',
    health: connectionHealth(reason, message),
    // Another channel would need the same of this machine.
    isRetryable: reason !== 'local',
    answer: undefined,
    shortage,
  }
}

function connectionHealth(reason: ConnectionFailure['reason'], message: string): HealthOutcome {
  if (reason === 'connect' || reason === 'timeout') return { kind: reason }
  // What this machine has run out of says nothing about the channel.
  if (reason === 'local') return { kind: 'client' }
  return reason === 'key' ? { kind: 'auth', detail: message } : { kind: '5xx' }
}

/** An answer that says it is good and is not. */
export const invalidAnswer = (channel: RelayChannel, message: string): AttemptFailure =>
  connectionFailure(channel, {
    kind: 'failure',
    reason: 'invalid',
    message: channel.secrets.scrub(message),
    wasSent: true,
  })

const parsed = (body: Buffer): unknown => parsedOrNothing(body.toString('utf8'))

/** An error in the words of the format that was asked in; undefined where nothing is known of that one's errors. */
function errorIn(
  { status, headers, body }: WholeResponse,
  format: string | undefined,
  document: unknown = parsed(body),
): ChatError | undefined {
  const header = (name: string) => {
    const value = headers[name]
    return typeof value === 'string' ? value : undefined
  }
  return outboundOf(format ?? '')?.decodeError({ status, body: document, header })
}

type Asked = { readonly nowMs: number; readonly format: string | undefined }

/** The channel's own reading of the status counts from here on: for what is tried next and for what is told. */
export function statusFailure(
  channel: RelayChannel,
  response: WholeResponse,
  { nowMs, format }: Asked,
): AttemptFailure {
  const status = channel.statusMapping.get(response.status) ?? response.status
  const body = parsed(response.body)
  const error = errorIn(response, format, body)
  // Some vendors say in the body only how long to wait.
  const retryAfterS = readRetryAfter(response.headers['retry-after'] ?? error?.retryAfterS?.toString(), nowMs)
  const isMapped = status !== response.status
  // Once an administrator has said what a status means, the provider's file is not asked any more.
  const isKeyTrouble = !isMapped && (channel.provider.isKeyTrouble?.(status, body) ?? false)
  return {
    channel,
    kind: 'status',
    status,
    message: isMapped ? `status ${response.status}, taken for ${status}` : `status ${status}`,
    retryAfterS,
    isInDoubt: false,
    health: healthOf(status, isKeyTrouble, retryAfterS),
    isRetryable: isKeyTrouble || NEXT_CHANNEL.has(status) || status >= 500 || status < 400,
    answer: isMapped ? { ...response, status } : response,
    error: isMapped ? undefined : error,
  }
}

/** A channel whose own override stands in the way: nobody was asked, and its health is not in question. */
export const overrideFailure = (channel: RelayChannel, message: string): AttemptFailure => ({
  channel,
  kind: 'invalid',
  status: 0,
  message,
  retryAfterS: undefined,
  isInDoubt: false,
  health: { kind: 'client' },
  isRetryable: true,
  answer: undefined,
})

/** What an override answers in the provider's place. */
export const reportedFailure = (channel: RelayChannel, error: ErrorResponse): AttemptFailure => {
  const { status, message, type, code, isFinal } = error
  const body = Buffer.from(JSON.stringify({ error: { message, type, param: null, code } }))
  return {
    ...overrideFailure(channel, message),
    kind: 'status',
    status,
    isRetryable: !isFinal,
    answer: { kind: 'whole', status, headers: {}, body },
  }
}

function healthOf(status: number, isKeyTrouble: boolean, retryAfterS: number | undefined): HealthOutcome {
  if (status === 401 || status === 403 || isKeyTrouble) return { kind: 'auth', detail: `status ${status}` }
  if (status === 402) return { kind: 'credit', detail: 'status 402' }
  if (status === 429)
    return { kind: '429', retryAfterMs: retryAfterS === undefined ? undefined : retryAfterS * 1000 }
  if (status === 408) return { kind: 'timeout' }
  if (status >= 500 || status < 400) return { kind: '5xx' }
  return { kind: 'client' }
}

const isTimeout = ({ kind, status }: AttemptFailure) => kind === 'timeout' || status === 408

/** The error for a client whose attempts all failed (docs/reference/errors.md: Failed attempts). */
export function refusalFor(failures: readonly AttemptFailure[]): Refusal {
  const shortage = failures.at(-1)?.shortage
  if (shortage) return overloaded(shortage)
  if (failures.every(isTimeout)) return new Refusal('upstream_timeout', 'every channel tried was too slow')
  if (failures.every(({ status }) => status === 429)) {
    const retryAfterS = Math.min(...failures.map(failure => failure.retryAfterS ?? DEFAULT_RETRY_S))
    return new Refusal('upstream_rate_limited', 'every channel tried is at its rate limit', { retryAfterS })
  }
  return new Refusal('upstream_error', 'every channel tried failed')
}
