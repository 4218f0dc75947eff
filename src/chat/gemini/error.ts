import { isObject, type JsonObject, member, textOf } from '../../domain/json-value.ts'
import { chatError, ERROR_KINDS, errorKind, retryAfterS } from '../hub/error.ts'
import type { EncodedError, VendorErrorAnswer } from '../hub/format.ts'
import type { ChatError, ErrorKind } from '../hub/hub.ts'

const STATUS_NAMES = {
  invalid: 'INVALID_ARGUMENT',
  context: 'INVALID_ARGUMENT',
  filtered: 'INVALID_ARGUMENT',
  auth: 'UNAUTHENTICATED',
  permission: 'PERMISSION_DENIED',
  notFound: 'NOT_FOUND',
  tooLarge: 'INVALID_ARGUMENT',
  rateLimit: 'RESOURCE_EXHAUSTED',
  quota: 'RESOURCE_EXHAUSTED',
  timeout: 'DEADLINE_EXCEEDED',
  overloaded: 'UNAVAILABLE',
  truncated: 'INTERNAL',
  server: 'INTERNAL',
} as const satisfies Record<ErrorKind, string>

/** The vendor's status name decides if there is one: an error inside a stream has no HTTP status. */
const KINDS: Readonly<Record<string, ErrorKind>> = {
  UNAUTHENTICATED: 'auth',
  PERMISSION_DENIED: 'permission',
  NOT_FOUND: 'notFound',
  RESOURCE_EXHAUSTED: 'rateLimit',
  DEADLINE_EXCEEDED: 'timeout',
  UNAVAILABLE: 'overloaded',
  INTERNAL: 'server',
}

/** One status name covers several kinds of errors; the reason in the details distinguishes them. */
const REASONS: Readonly<Record<string, ErrorKind>> = {
  API_KEY_INVALID: 'auth',
  API_KEY_SERVICE_BLOCKED: 'permission',
  CONTEXT_LENGTH_EXCEEDED: 'context',
  CONTENT_FILTER: 'filtered',
  INSUFFICIENT_QUOTA: 'quota',
  REQUEST_TOO_LARGE: 'tooLarge',
}

const OUR_REASONS: Partial<Record<ErrorKind, string>> = {
  context: 'CONTEXT_LENGTH_EXCEEDED',
  filtered: 'CONTENT_FILTER',
  quota: 'INSUFFICIENT_QUOTA',
  tooLarge: 'REQUEST_TOO_LARGE',
}

const TYPE = 'type.googleapis.com/google.rpc.'

export function decodeError({ status, body, header }: VendorErrorAnswer): ChatError {
  // A stream that is an array of answers sends an error as one of its entries.
  const envelope = Array.isArray(body) ? body.find(each => member(each, 'error') !== undefined) : body
  const error = member(envelope, 'error')
  const statusName = textOf(member(error, 'status'))
  const reason = textOf(member(detail(error, 'ErrorInfo'), 'reason'))
  const message =
    textOf(member(error, 'message')) ?? textOf(error) ?? `The provider returned status ${status}.`
  const code = member(error, 'code')
  const effectiveStatus = status >= 400 ? status : typeof code === 'number' && code >= 400 ? code : 500
  const kind =
    (reason !== undefined && REASONS[reason]) ||
    (statusName !== undefined && KINDS[statusName]) ||
    errorKind(effectiveStatus, message, [])
  return chatError(kind, message, {
    type: statusName,
    code: reason,
    retryAfterS: retryAfterS(header) ?? delayS(member(detail(error, 'RetryInfo'), 'retryDelay')),
  })
}

function detail(error: unknown, type: string): JsonObject | undefined {
  const details = member(error, 'details')
  if (!Array.isArray(details)) return undefined
  return details.filter(isObject).find(each => each['@type'] === TYPE + type)
}

/** `48s`, `1.5s` */
function delayS(value: unknown): number | undefined {
  const seconds =
    typeof value === 'string' && /^\d+(\.\d+)?s$/.test(value) ? Number.parseFloat(value) : Number.NaN
  return Number.isNaN(seconds) ? undefined : Math.ceil(seconds)
}

export function errorBody({ kind, message, retryAfterS }: ChatError): JsonObject {
  const reason = OUR_REASONS[kind]
  const details = [
    ...(reason === undefined ? [] : [{ '@type': `${TYPE}ErrorInfo`, reason, domain: 'sluice' }]),
    ...(retryAfterS === undefined ? [] : [{ '@type': `${TYPE}RetryInfo`, retryDelay: `${retryAfterS}s` }]),
  ]
  return {
    error: {
      code: ERROR_KINDS[kind].status,
      message,
      status: STATUS_NAMES[kind],
      ...(details.length > 0 && { details }),
    },
  }
}

export const encodeError = (error: ChatError): EncodedError => ({
  status: ERROR_KINDS[error.kind].status,
  body: errorBody(error),
})
