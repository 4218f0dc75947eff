import { compact } from './fields.ts'
import type { ChatError, ErrorKind } from './hub.ts'

/** The status, type and code of each kind in the common format. */
export const ERROR_KINDS = {
  invalid: { status: 400, type: 'invalid_request_error' },
  context: { status: 400, type: 'invalid_request_error', code: 'context_length_exceeded' },
  filtered: { status: 400, type: 'invalid_request_error', code: 'content_filter' },
  auth: { status: 401, type: 'authentication_error' },
  permission: { status: 403, type: 'permission_error' },
  notFound: { status: 404, type: 'not_found_error' },
  tooLarge: { status: 413, type: 'invalid_request_error' },
  rateLimit: { status: 429, type: 'rate_limit_error' },
  quota: { status: 429, type: 'insufficient_quota' },
  timeout: { status: 504, type: 'upstream_error' },
  overloaded: { status: 503, type: 'api_error' },
  truncated: { status: 502, type: 'upstream_error' },
  server: { status: 502, type: 'upstream_error' },
} as const satisfies Record<ErrorKind, { status: number; type: string; code?: string }>

const STATUS_KINDS: Readonly<Record<number, ErrorKind>> = {
  401: 'auth',
  402: 'quota',
  403: 'permission',
  404: 'notFound',
  408: 'timeout',
  413: 'tooLarge',
  429: 'rateLimit',
  498: 'auth',
  503: 'overloaded',
  504: 'timeout',
  529: 'overloaded',
}

/** Vendors report a full context in the message only (docs/reference/formats.md: Provider error shapes). */
const CONTEXT_PATTERN =
  /maximum context length|context[_ ]length[_ ]exceeded|exceeds the context window|prompt is too long|input token count .{0,40}exceeds the maximum|too many tokens|total length of all messages is too long|input is too long/i

/** The kind by status, refined by the message if vendors use one status for several kinds. */
export function errorKind(
  status: number,
  message: string,
  hints: readonly (string | undefined)[],
): ErrorKind {
  const presentHints = hints.filter(hint => hint !== undefined)
  if (presentHints.includes('insufficient_quota')) return 'quota'
  if (presentHints.includes('content_filter')) return 'filtered'
  const kindOfStatus = STATUS_KINDS[status]
  if (kindOfStatus !== undefined) return kindOfStatus
  if (status >= 500) return 'server'
  return CONTEXT_PATTERN.test(message) || presentHints.includes('context_length_exceeded')
    ? 'context'
    : 'invalid'
}

export const chatError = (
  kind: ErrorKind,
  message: string,
  details: {
    type?: string | undefined
    code?: string | undefined
    param?: string | undefined
    retryAfterS?: number | undefined
  } = {},
): ChatError => compact<ChatError>({ kind, message, ...details })

/** The seconds of a `retry-after` header; a date or an invalid value counts as absent. */
export function retryAfterS(header: ((name: string) => string | undefined) | undefined): number | undefined {
  const milliseconds = Number(header?.('retry-after-ms') ?? Number.NaN)
  if (milliseconds >= 0) return Math.ceil(milliseconds / 1000)
  const seconds = Number(header?.('retry-after') ?? Number.NaN)
  return seconds >= 0 ? Math.ceil(seconds) : undefined
}

export const TRUNCATED: ChatError = {
  kind: 'truncated',
  message: 'The provider closed the connection before the response was complete.',
  code: 'upstream_error',
}
