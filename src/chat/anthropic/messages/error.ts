import { type JsonObject, member, textOf } from '../../../domain/json-value.ts'
import { chatError, ERROR_KINDS, errorKind, retryAfterS } from '../../hub/error.ts'
import type { EncodedError, VendorErrorAnswer } from '../../hub/format.ts'
import type { ChatError, ErrorKind } from '../../hub/hub.ts'

const TYPES = {
  invalid: 'invalid_request_error',
  context: 'invalid_request_error',
  filtered: 'invalid_request_error',
  auth: 'authentication_error',
  permission: 'permission_error',
  notFound: 'not_found_error',
  tooLarge: 'request_too_large',
  rateLimit: 'rate_limit_error',
  quota: 'billing_error',
  timeout: 'timeout_error',
  overloaded: 'overloaded_error',
  truncated: 'api_error',
  server: 'api_error',
} as const satisfies Record<ErrorKind, string>

/** The vendor's error type decides if there is one: an error inside a stream has no HTTP status. */
const KINDS: Readonly<Record<string, ErrorKind>> = {
  authentication_error: 'auth',
  billing_error: 'quota',
  permission_error: 'permission',
  not_found_error: 'notFound',
  request_too_large: 'tooLarge',
  rate_limit_error: 'rateLimit',
  timeout_error: 'timeout',
  overloaded_error: 'overloaded',
  api_error: 'server',
}

export function decodeError({ status, body, header }: VendorErrorAnswer): ChatError {
  const error = member(body, 'error')
  const type = textOf(member(error, 'type'))
  const message =
    textOf(member(error, 'message')) ??
    textOf(error) ??
    textOf(member(body, 'message')) ??
    `The provider returned status ${status}.`
  const effectiveStatus = status >= 400 ? status : type === 'invalid_request_error' ? 400 : 500
  const kind = (type !== undefined && KINDS[type]) || errorKind(effectiveStatus, message, [type])
  return chatError(kind, message, { type, retryAfterS: retryAfterS(header) })
}

/** Codes that the vendor's SDKs act on; all other errors are distinguished by their type. */
const CODES = new Set(['thread_not_found'])

export const errorBody = ({ kind, message, code }: ChatError): JsonObject => ({
  type: 'error',
  error: {
    type: TYPES[kind],
    message,
    ...(code !== undefined && CODES.has(code) && { details: { error_code: code } }),
  },
})

export const encodeError = (error: ChatError): EncodedError => ({
  status: ERROR_KINDS[error.kind].status,
  body: errorBody(error),
})
