/** What an operation works on: the body as far as the override needs it, and the headers that go out. */
export type Edit = {
  readonly body: Record<string, unknown>
  /** Members of the outermost object that are no longer what they were. */
  readonly touched: Set<string>
  /** By lower-case name. */
  readonly headers: Record<string, string>
  /** A header of the client that may be passed on. */
  clientHeader(name: string): string | undefined
  /** Puts in what placeholders stand for; undefined where the client sent nothing of the kind. */
  fill(template: string): string | undefined
  /** Takes so many characters from what an override may add to one request, or ends it. */
  spend(characters: number): void
}

/** An override that cannot be applied to this request, in words for the log. */
export class OverrideError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'OverrideError'
  }
}

/** What `return_error` answers instead of asking the provider. */
export type ErrorResponse = {
  readonly status: number
  readonly message: string
  readonly type: string
  readonly code: string
  /** False: the next channel is asked. */
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

/** A copy of its own, paid for piece by piece. */
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
