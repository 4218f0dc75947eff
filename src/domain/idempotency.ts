import { Refusal } from './errors.ts'

/**
 * The rules of an `Idempotency-Key`, for every request that takes one:
 * docs/reference/management-api.md: Idempotency on writes
 * docs/reference/relay-api.md: Idempotency on the relay
 *
 * Writes of `/api` store the response in their own transaction. The relay claims the key before it calls a provider. For a
 * video job, the row of the job is the claim.
 */
export const IDEMPOTENCY_LIFETIME_S = 24 * 3600

const MAX_KEY = 255
const CONFLICTS = {
  'other-body': 'This Idempotency-Key was used with another body. Use a new key.',
  'still-running':
    'The first request with this Idempotency-Key is still running. Retry when it has finished.',
  'too-large': 'The response to this Idempotency-Key was too large to be stored. Use a new key.',
} as const

export const idempotencyConflict = (reason: keyof typeof CONFLICTS): Refusal =>
  new Refusal('idempotency_conflict', CONFLICTS[reason])

/** The key in a request's header; undefined without one. `refuse` creates the error in the format of the called API. */
export function parseIdempotencyKey(
  header: string | readonly string[] | undefined,
  refuse: (path: string, message: string) => Refusal,
): string | undefined {
  if (header === undefined) return undefined
  if (typeof header !== 'string' || header.length > MAX_KEY || !/^[\x21-\x7e]+$/.test(header))
    throw refuse('Idempotency-Key', `must be 1 to ${MAX_KEY} printable characters without spaces`)
  return header
}

/** The stored state of the first request with a key: the digest of its body, and its response if it has completed. */
export type FirstRequest<Response> = {
  readonly bodyDigest: string
  readonly response: Response | 'still-running' | 'too-large'
}

/** Returns the stored response for a repeated request. */
export function replay<Response extends object>(first: FirstRequest<Response>, bodyDigest: string): Response {
  if (first.bodyDigest !== bodyDigest) throw idempotencyConflict('other-body')
  if (typeof first.response === 'string') throw idempotencyConflict(first.response)
  return first.response
}
