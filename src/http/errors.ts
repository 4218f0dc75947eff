import {
  MANAGEMENT_STATUS,
  type ManagementCode,
  RELAY_STATUS,
  Refusal,
  type RelayCode,
  UnreachableError,
} from '../domain/errors.ts'

export type ErrorAnswer = {
  readonly status: number
  readonly code: ManagementCode | RelayCode
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

/** Headers that a status requires (RFC 9110, 15.5.2 and 15.5.6). */
const headersOf = ({ retryAfterS, headers }: Refusal, status: number) => ({
  ...headers,
  ...(retryAfterS === undefined ? {} : { 'retry-after': String(retryAfterS) }),
  ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
})

const isManagementCode = (code: string): code is ManagementCode => Object.hasOwn(MANAGEMENT_STATUS, code)
const isRelayCode = (code: string): code is RelayCode => Object.hasOwn(RELAY_STATUS, code)

/** The error response of `/api`, in the management envelope. */
export function managementError(error: Refusal): ErrorAnswer {
  const code = isManagementCode(error.code) ? error.code : 'unauthorized'
  const errors = error.errors === undefined ? {} : { errors: error.errors }
  return {
    status: MANAGEMENT_STATUS[code],
    code,
    headers: headersOf(error, MANAGEMENT_STATUS[code]),
    body: { success: false, code, message: error.message, ...errors },
  }
}

/** Management codes that relay routes can return too, and their names there. */
const RELAY_NAME: Partial<Record<ManagementCode, RelayCode>> = {
  unauthorized: 'invalid_api_key',
  store_unavailable: 'ledger_unavailable',
}

/** Some clients (LiteLLM) recognize a wrong key by this text instead of the status. */
const MESSAGE_PREFIX: Partial<Record<RelayCode, string>> = { invalid_api_key: 'Incorrect API key provided: ' }

/** The error response of `/v1`. */
export function relayError(error: Refusal): ErrorAnswer {
  const relayCode = isManagementCode(error.code) ? (RELAY_NAME[error.code] ?? error.code) : error.code
  const code = isRelayCode(relayCode) ? relayCode : 'internal_error'
  const { status, type } = RELAY_STATUS[code]
  const message = `${MESSAGE_PREFIX[code] ?? ''}${error.message}`
  return {
    status,
    code,
    headers: headersOf(error, status),
    body: { error: { message, type, param: error.errors?.[0]?.path ?? null, code } },
  }
}

const STORE_RETRY_S = 5

/** The database is unreachable. The message omits where it is and why: the log has both. */
export const storeUnavailable = ({ isOutcomeUnknown }: Pick<UnreachableError, 'isOutcomeUnknown'>) =>
  new Refusal(
    'store_unavailable',
    isOutcomeUnknown
      ? 'The database connection was lost during a change. Check whether the change was saved before you repeat it.'
      : 'The database is unavailable. Try again in a moment.',
    { retryAfterS: STORE_RETRY_S },
  )

/** Internal errors reveal no details: the log has them, under the request id. */
const internalError = (requestId: string) =>
  new Refusal('internal_error', `Internal error. The gateway log has details under request id ${requestId}.`)

/** The refusal for any thrown error. The caller logs everything but a `Refusal`. */
export function refusalOfError(error: unknown, requestId: string): Refusal {
  if (error instanceof Refusal) return error
  return error instanceof UnreachableError ? storeUnavailable(error) : internalError(requestId)
}
