/** The request that an operation edits: the parsed members of the body, and the headers to send. */
export type Edit = {
  readonly body: Record<string, unknown>
  /** Top-level members that an operation has changed. */
  readonly touched: Set<string>
  /** By lower-case name. */
  readonly headers: Record<string, string>
  /** A client header that may be forwarded. */
  clientHeader(name: string): string | undefined
  /** Replaces placeholders; undefined: the client did not send such a header. */
  fill(template: string): string | undefined
  /** Counts characters that the override adds; throws above the limit of a request. */
  spend(characters: number): void
}

/** The override cannot be applied to this request; the message is for the log. */
export class OverrideError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'OverrideError'
  }
}

/** The response that `return_error` sends instead of the provider's. */
export type ErrorResponse = {
  readonly status: number
  readonly message: string
  readonly type: string
  readonly code: string
  /** False: the gateway retries on the next channel. */
  readonly isFinal: boolean
}

export class ReturnedError extends Error {
  readonly response: ErrorResponse
  constructor(response: ErrorResponse) {
    super(response.message)
    this.name = 'ReturnedError'
    this.response = response
  }
}

export const MAX_ADDED = 16 * 1024 * 1024
const NODE_COST = 8

/** A deep copy, whose size counts as added characters. */
export function copyOf(value: unknown, spend: Edit['spend']): unknown {
  spend(NODE_COST)
  if (typeof value === 'string') {
    spend(value.length)
    return value
  }
  if (Array.isArray(value)) return value.map(each => copyOf(each, spend))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, copyOf(each, spend)]))
}
