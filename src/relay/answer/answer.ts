import { Refusal } from '../../domain/errors.ts'
import { relayError } from '../../http/errors.ts'
import type { RelayIncoming, RelayOutgoing } from '../../http/relay-exchange.ts'
import { RELAY_SECURITY } from '../../http/relay-headers.ts'
import type { BodyCapture } from '../bodies/capture.ts'
import type { StoredAnswer } from '../intake/repeat.ts'
import { JSON_TYPE, ownType } from './content-type.ts'
import { COMMON_ERROR_FORMAT, type ErrorFormat, type RelayError, relayErrorOf } from './error-format.ts'

/** Response headers that browsers may read. CORS forbids `*` with credentials. */
const EXPOSED = [
  'x-request-id',
  'request-id',
  'retry-after',
  'x-ratelimit-limit-requests',
  'x-ratelimit-limit-tokens',
  'x-ratelimit-remaining-requests',
  'x-ratelimit-remaining-tokens',
  'x-ratelimit-reset-requests',
  'x-ratelimit-reset-tokens',
  'x-sluice-channel',
  'x-sluice-cost',
  'x-sluice-video-id',
  'x-sluice-warnings',
].join(', ')

/** Headers of every response of the relay (docs/reference/relay-api.md: Response headers). */
export const commonHeaders = (requestId: string, errorFormat?: ErrorFormat): Record<string, string> => {
  const headers = {
    'x-request-id': requestId,
    'access-control-allow-origin': '*',
    'access-control-expose-headers': EXPOSED,
    'x-content-type-options': RELAY_SECURITY['x-content-type-options'],
    'content-security-policy': RELAY_SECURITY['content-security-policy'],
  }
  return errorFormat?.headers === undefined ? headers : { ...headers, ...errorFormat.headers(requestId) }
}

export function answerPreflight(request: RelayIncoming, response: RelayOutgoing, requestId: string): void {
  response.writeHead(204, {
    ...commonHeaders(requestId),
    'access-control-allow-methods': 'GET, POST, DELETE, OPTIONS',
    'access-control-allow-headers': request.headers['access-control-request-headers'] ?? '*',
    'access-control-max-age': '86400',
  })
  response.end()
}

/** Replays the stored answer to the same request with the same `Idempotency-Key`. */
export function answerStored(
  response: RelayOutgoing,
  { status, contentType, body }: StoredAnswer,
  { requestId, capture }: Pick<ErrorOptions, 'requestId' | 'capture'>,
): void {
  capture?.answerType(contentType)
  capture?.answer(body)
  response.writeHead(status, {
    ...commonHeaders(requestId),
    'content-type': ownType(contentType),
    'content-length': String(body.length),
    'idempotency-replayed': 'true',
  })
  response.end(body)
}

/** Returns the sent body. */
export function answerJson(
  response: RelayOutgoing,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: unknown,
): Buffer {
  const bytes = Buffer.from(JSON.stringify(body))
  response.writeHead(status, {
    ...headers,
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(bytes.length),
  })
  response.end(bytes)
  return bytes
}

/** SDKs read `x-should-retry`. A retry does not help against these errors. */
const NOT_RETRYABLE = new Set(['insufficient_quota', 'model_not_priced'])

/** Answers with an error in the client's format. */
export function answerError(
  response: RelayOutgoing,
  error: RelayError,
  { errorFormat = COMMON_ERROR_FORMAT, requestId, headers = {}, capture }: ErrorOptions,
): void {
  const more = { ...commonHeaders(requestId, errorFormat), ...headers }
  const bytes = answerJson(response, error.status, more, errorFormat.errorBody(error, requestId))
  capture?.answerType(JSON_TYPE)
  capture?.answer(bytes)
}

type ErrorOptions = {
  readonly errorFormat?: ErrorFormat | undefined
  readonly requestId: string
  readonly headers?: Readonly<Record<string, string>>
  readonly capture?: BodyCapture | undefined
}

export function answerRefusal(response: RelayOutgoing, refusal: Refusal, options: ErrorOptions): void {
  const { headers } = relayError(refusal)
  const repeat = NOT_RETRYABLE.has(refusal.code) ? { 'x-should-retry': 'false' } : {}
  // The rest of an unread body would be parsed as the next request, so the connection is closed.
  const close =
    refusal.code === 'request_too_large' || refusal.code === 'request_timeout' ? { connection: 'close' } : {}
  answerError(response, relayErrorOf(refusal), {
    ...options,
    headers: { ...options.headers, ...headers, ...repeat, ...close },
  })
}

export const noSuchRoute = (request: RelayIncoming) =>
  new Refusal('not_found', `No such route: ${request.method} ${(request.url ?? '').split('?')[0]}.`)
