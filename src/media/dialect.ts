import type { JsonObject } from '../domain/json-value.ts'
import type { FormPart, StoredFile } from '../wire/multipart.ts'

/** A request in a vendor's own words: one document, several that are asked one by one, a form, or a bare file. */
export type Encoded = {
  readonly query?: Readonly<Record<string, string>>
  /** What the vendor cannot be told of the request. */
  readonly warnings?: readonly string[]
} /** Where a text is a file, `embed` says so. */ & (
  | { readonly json: JsonObject; readonly headers?: Readonly<Record<string, string>> }
  | { readonly several: readonly JsonObject[] }
  | { readonly parts: readonly FormPart[] }
  | { readonly file: StoredFile }
)

/** An answer that says it is good and is none: the request may go to another channel. */
export class AnswerError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'AnswerError'
  }
}

/** How a vendor words an operation that it does not speak in the common shape. */
export type Dialect<Ask, Answer> = {
  /** `maxOutput`: what the hold covers, for vendors that would say more. */
  encode(ask: Ask, model: string, maxOutput?: number): Encoded
  /** Of several questions the answers come as a list. Throws AnswerError where there is no answer in it. */
  decode(answer: unknown, ask: Ask): Answer
}

/** The members that have a value. */
export const presentFields = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null))
