import { isObject, textOf, type WireObject } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { countTokens } from '../tokens.ts'

export const CHOICE_LIMIT = 128

/** A request's body and its model, which every endpoint needs. */
export function decodeRequest(body: string): { readonly request: WireObject; readonly model: string } {
  const request = parse(body)
  const model = textOf(request.model)
  if (model === undefined || model === '') throw missing('model')
  return { request, model }
}

function parse(body: string): WireObject {
  let request: unknown
  try {
    request = JSON.parse(body)
  } catch {
    throw new ProviderError('bad_json', 'The body of the request is not valid JSON.')
  }
  if (!isObject(request))
    throw new ProviderError('bad_json', 'The body of the request must be a JSON object.')
  return request
}

export function decodeCount(request: WireObject, field: string, most?: number): number | undefined {
  const value = request[field]
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'number') throw new ProviderError('wrong_type', `'${field}' must be a number.`, field)
  if (!Number.isInteger(value) || value < 1 || (most !== undefined && value > most)) {
    const range = most === undefined ? 'from 1 up' : `from 1 to ${most}`
    throw new ProviderError('bad_value', `'${field}' must be a whole number ${range}.`, field)
  }
  return value
}

/** A text, or its token numbers: the older endpoints accept both, and lists of both. */
export type Passage = string | readonly number[]

export function decodePassages(request: WireObject, field: string, most: number): readonly Passage[] {
  const value = request[field]
  if (value === undefined || value === null) throw missing(field)
  const passages = isPassage(value) ? [value] : value
  if (!Array.isArray(passages) || !passages.every(isPassage)) {
    throw new ProviderError('wrong_type', `'${field}' must be texts or lists of token numbers.`, field)
  }
  if (passages.length === 0 || passages.length > most) {
    throw new ProviderError('bad_value', `'${field}' must be 1 to ${most} texts.`, field)
  }
  return passages
}

export function countPassage(passage: Passage): number {
  return typeof passage === 'string' ? countTokens(passage) : passage.length
}

function isPassage(value: unknown): value is Passage {
  if (typeof value === 'string') return true
  return Array.isArray(value) && value.length > 0 && value.every(isTokenNumber)
}

function isTokenNumber(value: unknown): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0
}

export function missing(field: string): ProviderError {
  return new ProviderError('missing_field', `The request lacks '${field}'.`, field)
}

export function requestsUsage({ stream_options: options }: WireObject): boolean {
  return isObject(options) && options.include_usage === true
}
