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
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

/** What a status has to say beside its body (RFC 9110, 15.5.2 and 15.5.6). */
const headersOf = ({ retryAfterS, headers }: Refusal, status: number) => ({
  ...headers,
  ...(retryAfterS === undefined ? {} : { 'retry-after': String(retryAfterS) }),
  ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
})

const isManagementCode = (code: string): code is ManagementCode => Object.hasOwn(MANAGEMENT_STATUS, code)
const isRelayCode = (code: string): code is RelayCode => Object.hasOwn(RELAY_STATUS, code)

/** The one exit of `/api`: whatever was thrown, told in the management envelope. */
export function managementError(error: Refusal): ErrorAnswer {
  const code = isManagementCode(error.code) ? error.code : 'unauthorized'
  const errors = error.errors === undefined ? {} : { errors: error.errors }
  return {
    status: MANAGEMENT_STATUS[code],
    headers: headersOf(error, MANAGEMENT_STATUS[code]),
    body: { success: false, code, message: error.message, ...errors },
  }
}

/** What a code of the management table is called on the relay, where both can answer the same route. */
const RELAY_NAME: Partial<Record<ManagementCode, RelayCode>> = {
  unauthorized: 'invalid_api_key',
  store_unavailable: 'ledger_unavailable',
}

/** Clients of the common shape tell a wrong key from a wrong request by these words (LiteLLM), whatever the status. */
const FIRST_WORDS: Partial<Record<RelayCode, string>> = { invalid_api_key: 'Incorrect API key provided: ' }

/** The one exit of `/v1`. */
export function relayError(error: Refusal): ErrorAnswer {
  const named = isManagementCode(error.code) ? (RELAY_NAME[error.code] ?? error.code) : error.code
  const code = isRelayCode(named) ? named : 'internal_error'
  const { status, type } = RELAY_STATUS[code]
  const message = `${FIRST_WORDS[code] ?? ''}${error.message}`
  return {
    status,
    headers: headersOf(error, status),
    body: { error: { message, type, param: error.errors?.[0]?.path ?? null, code } },
  }
}

const STORE_RETRY_S = 5

/** The store cannot be asked. It says nothing of where the store is, nor why: the log does. */
export const storeUnavailable = ({ isOutcomeUnknown }: Pick<UnreachableError, 'isOutcomeUnknown'>) =>
  new Refusal(
    'store_unavailable',
    isOutcomeUnknown
      ? 'the database went away while a change was made: look whether it was kept before you repeat it'
      : 'the database does not answer now; try again in a moment',
    { retryAfterS: STORE_RETRY_S },
  )

/** Faults of ours say nothing of what happened inside; the log does, under the request's id. */
const internalError = (requestId: string) =>
  new Refusal('internal_error', `something went wrong on our side; the log has it under ${requestId}`)

/** What is told of whatever was thrown. Everything but a refusal is for the log as well. */
export function refusalOfError(error: unknown, requestId: string): Refusal {
  if (error instanceof Refusal) return error
  return error instanceof UnreachableError ? storeUnavailable(error) : internalError(requestId)
}
