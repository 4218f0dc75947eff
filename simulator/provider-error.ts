/** Every reason to refuse a request, with its status; protocols have their own error formats. */
const REFUSALS = {
  no_key: 401,
  not_local: 403,
  unknown_path: 404,
  wrong_method: 405,
  unknown_model: 404,
  too_large: 413,
  bad_json: 400,
  missing_field: 400,
  wrong_type: 400,
  bad_value: 400,
  bad_steering: 400,
  broken: 500,
} as const satisfies Record<string, number>

export type RefusalKind = keyof typeof REFUSALS

export class ProviderError extends Error {
  readonly kind: RefusalKind
  /** The invalid member of the request, if it is one. */
  readonly field: string | null

  constructor(kind: RefusalKind, message: string, field: string | null = null) {
    super(message)
    this.name = 'ProviderError'
    this.kind = kind
    this.field = field
  }

  get status(): number {
    return REFUSALS[this.kind]
  }
}
