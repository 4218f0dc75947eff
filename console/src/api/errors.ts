export type FieldError = { readonly path: string; readonly message: string }

type ErrorFacts = {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly errors?: readonly FieldError[] | undefined
  readonly requestId?: string | undefined
  readonly retryAfterS?: number | undefined
}

/** An error response: status, stable code, and errors of single fields. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly errors: readonly FieldError[]
  readonly requestId: string | undefined
  readonly retryAfterS: number | undefined

  constructor({ status, code, message, errors = [], requestId, retryAfterS }: ErrorFacts) {
    super(message)
    this.name = 'ApiError'
    this.status = status
    this.code = code
    this.errors = errors
    this.requestId = requestId
    this.retryAfterS = retryAfterS
  }
}

/** The code of a request that received no response. */
export const OFFLINE = 'offline'
/** The code of a response that is not one of the gateway, for example the error page of a proxy. */
const FOREIGN = 'foreign_response'

type ErrorBody = {
  readonly code?: string
  readonly message?: string
  readonly errors?: readonly FieldError[]
  readonly error?: { readonly code?: string | null; readonly message?: string }
}

export const foreignResponse = ({ status }: Response) => new ApiError({ status, code: FOREIGN, message: '' })

/** Reads errors of both APIs: `/api` puts them at the top level, `/v1` under `error`. */
export async function errorOf(response: Response): Promise<ApiError> {
  const body: ErrorBody = await response.json().catch(() => ({}))
  const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN)
  return new ApiError({
    status: response.status,
    code: body.code ?? body.error?.code ?? FOREIGN,
    message: body.message ?? body.error?.message ?? '',
    errors: body.errors,
    requestId: response.headers.get('x-request-id') ?? undefined,
    retryAfterS: Number.isFinite(retryAfter) ? retryAfter : undefined,
  })
}
