/** The status of each error code of `/api` (docs/reference/errors.md: Management errors). */
export const MANAGEMENT_STATUS = {
  invalid_request: 400,
  unauthorized: 401,
  wrong_credentials: 401,
  forbidden: 403,
  wrong_password: 403,
  fresh_sign_in_required: 403,
  password_change_required: 403,
  cross_site_refused: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  conflict: 409,
  idempotency_conflict: 409,
  too_large: 413,
  rate_limited: 429,
  internal_error: 500,
  upstream_error: 502,
  store_unavailable: 503,
  overloaded: 503,
  shutting_down: 503,
} as const

/** The status and type of each error code of `/v1` (docs/reference/errors.md: Relay errors). */
export const RELAY_STATUS = {
  invalid_api_key: { status: 401, type: 'invalid_request_error' },
  cross_site_refused: { status: 403, type: 'invalid_request_error' },
  ip_not_allowed: { status: 403, type: 'invalid_request_error' },
  not_found: { status: 404, type: 'invalid_request_error' },
  method_not_allowed: { status: 405, type: 'invalid_request_error' },
  request_timeout: { status: 408, type: 'invalid_request_error' },
  model_not_allowed: { status: 403, type: 'invalid_request_error' },
  model_not_found: { status: 404, type: 'invalid_request_error' },
  model_not_priced: { status: 400, type: 'invalid_request_error' },
  invalid_json: { status: 400, type: 'invalid_request_error' },
  missing_parameter: { status: 400, type: 'invalid_request_error' },
  invalid_parameter: { status: 400, type: 'invalid_request_error' },
  unsupported_content: { status: 400, type: 'invalid_request_error' },
  thread_not_found: { status: 404, type: 'invalid_request_error' },
  video_not_found: { status: 404, type: 'invalid_request_error' },
  video_not_ready: { status: 409, type: 'invalid_request_error' },
  video_expired: { status: 410, type: 'invalid_request_error' },
  idempotency_conflict: { status: 409, type: 'invalid_request_error' },
  request_too_large: { status: 413, type: 'invalid_request_error' },
  unsupported_media_type: { status: 415, type: 'invalid_request_error' },
  insufficient_quota: { status: 429, type: 'insufficient_quota' },
  rate_limit_exceeded: { status: 429, type: 'rate_limit_error' },
  upstream_rate_limited: { status: 429, type: 'rate_limit_error' },
  internal_error: { status: 500, type: 'api_error' },
  upstream_error: { status: 502, type: 'upstream_error' },
  no_channel_available: { status: 503, type: 'api_error' },
  ledger_unavailable: { status: 503, type: 'api_error' },
  overloaded: { status: 503, type: 'api_error' },
  shutting_down: { status: 503, type: 'api_error' },
  upstream_timeout: { status: 504, type: 'upstream_error' },
} as const

export type ManagementCode = keyof typeof MANAGEMENT_STATUS
export type RelayCode = keyof typeof RELAY_STATUS

/** An invalid field of a request, by its path. */
export type FieldFault = { readonly path: string; readonly message: string }

type Details = {
  readonly errors?: readonly FieldFault[]
  readonly retryAfterS?: number
  /** Further headers of the response. */
  readonly headers?: Readonly<Record<string, string>>
}

/** A request that the gateway refuses. The code selects the row of the tables above. */
export class Refusal extends Error {
  readonly code: ManagementCode | RelayCode
  readonly errors: readonly FieldFault[] | undefined
  readonly retryAfterS: number | undefined
  readonly headers: Readonly<Record<string, string>> | undefined

  constructor(code: ManagementCode | RelayCode, message: string, details: Details = {}) {
    super(message)
    this.name = 'Refusal'
    this.code = code
    this.errors = details.errors
    this.retryAfterS = details.retryAfterS
    this.headers = details.headers
  }
}

/** The store cannot be reached, or does not answer. The request was not at fault and may be retried. */
export class UnreachableError extends Error {
  /** The connection failed during a commit: the change may have been made. */
  readonly isOutcomeUnknown: boolean

  constructor(cause: Error, { isOutcomeUnknown = false } = {}) {
    super(cause.message, { cause })
    this.name = 'UnreachableError'
    this.isOutcomeUnknown = isOutcomeUnknown
  }
}

/** The store is at another position of a node's journal than the node knows. Nothing was applied. */
export class StorePositionError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'StorePositionError'
  }
}

/** A request with invalid fields. The message names the first one, so that one log line is enough. */
export function invalid(errors: readonly FieldFault[]): Refusal {
  const [first] = errors
  const message = first ? `${first.path} ${first.message}` : 'The request is not valid.'
  return new Refusal('invalid_request', message, { errors })
}

export const invalidField = (path: string, message: string) => invalid([{ path, message }])

/** A known path with a method it does not support. */
export function wrongMethod(path: string, methods: Iterable<string>, method = 'this method'): Refusal {
  const allow = [...methods].sort().join(', ')
  return new Refusal('method_not_allowed', `${path} supports ${allow}, not ${method}.`, {
    headers: { allow },
  })
}

export const notFound = (resource: string) => new Refusal('not_found', `No such ${resource}.`)
