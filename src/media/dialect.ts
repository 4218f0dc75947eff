import type { JsonObject } from '../domain/json-value.ts'
import type { LostContent } from '../domain/warning.ts'
import type { FormPart, StoredFile } from '../wire/multipart.ts'

/** A request in a vendor's own format: one document, several that are sent one by one, a form, or a file. */
export type Encoded = {
  readonly query?: Readonly<Record<string, string>>
  /** Warnings about parts of the request that the vendor does not support. */
  readonly warnings?: readonly string[]
  /** Content of the request that the vendor does not support; a warning names it too. */
  readonly lostContent?: LostContent
} /** Where a text is a file, `embed` says so. */ & (
  | { readonly json: JsonObject; readonly headers?: Readonly<Record<string, string>> }
  | { readonly several: readonly JsonObject[] }
  | { readonly parts: readonly FormPart[] }
  | { readonly file: StoredFile }
)

/** An answer with a success status and an invalid body: the request may be retried on another channel. */
export class AnswerError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'AnswerError'
  }
}

/** How a vendor encodes an operation that it does not support in the common format. */
export type Dialect<Ask, Answer> = {
  /** `maxOutput`: the output that the hold covers, for vendors that would generate more. */
  encode(ask: Ask, model: string, maxOutput?: number): Encoded
  /** Gets a list of answers if several documents were sent. Throws AnswerError if there is no valid answer. */
  decode(answer: unknown, ask: Ask): Answer
}

/** The members that are not undefined. */
export const presentFields = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null))
