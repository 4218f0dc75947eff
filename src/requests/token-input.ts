import { longText } from '../wire/json-skim.ts'
import type { RequestFields } from './request-fields.ts'

/** The input of completions and embeddings: one text or several, or their tokens. */
export type TextInput = {
  /** The number of texts, each with an answer of its own. */
  readonly count: number
  /** An upper bound of the tokens of all texts. */
  readonly tokens: number
  /** The input is tokenized already. */
  readonly isTokens: boolean
}

// A tokenizer may add a marker before and after a text.
const MARKERS = 2

/** Reads a field with a text, a list of texts, a list of tokens, or a list of such lists. */
export function readTextInput(fields: RequestFields, name: string): TextInput | undefined {
  const value = fields.required(name)
  if (value === undefined || value === '') return undefined
  if (isText(value)) return { count: 1, tokens: textTokens(value), isTokens: false }
  if (Array.isArray(value) && value.length > 0) {
    const texts = isTokens(value) ? [value] : value
    if (texts.every(isText)) return inputOf(texts.map(textTokens), false)
    if (texts.every(isTokens))
      return inputOf(
        texts.map(tokens => tokens.length + MARKERS),
        true,
      )
  }
  fields.refuse(name, 'must be a string, a list of strings, a list of tokens or a list of lists of tokens')
  return undefined
}

const isText = (value: unknown): boolean => typeof value === 'string' || longText(value) !== undefined

const textTokens = (text: unknown): number =>
  (typeof text === 'string' ? Buffer.byteLength(text) : (longText(text)?.bytes ?? 0)) + MARKERS

const isTokens = (value: unknown): value is readonly number[] =>
  Array.isArray(value) && value.length > 0 && value.every(token => Number.isSafeInteger(token) && token >= 0)

const inputOf = (tokens: readonly number[], isTokens: boolean): TextInput => ({
  isTokens,
  count: tokens.length,
  tokens: tokens.reduce((sum, each) => sum + each, 0),
})
