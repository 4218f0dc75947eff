import { memberOf } from './member.ts'

/** Picks model names out of a parsed answer of any shape. */
export type ModelNames = (body: unknown) => readonly string[]

/** Reads `body[list][…][name]`; without `list` the body itself is the array. */
export function namesAt(list: string | undefined, name: string): ModelNames {
  return body => {
    const entries = list === undefined ? body : memberOf(body, list)
    if (!Array.isArray(entries)) return []
    const names = entries.map(entry => memberOf(entry, name))
    return [...new Set(names.filter(isName))]
  }
}

export const openaiModels = namesAt('data', 'id')
export const ollamaModels = namesAt('models', 'name')

/** Names are told as `models/…` but asked for without the prefix. */
export const geminiModels: ModelNames = body => [
  ...new Set(
    ollamaModels(body)
      .map(name => name.replace(/^models\//, ''))
      .filter(isName),
  ),
]

/** One reader over several lists of one answer, or over the several shapes an answer may have. */
export const allOf =
  (...readers: readonly ModelNames[]): ModelNames =>
  body => [...new Set(readers.flatMap(reader => reader(body)))]

const isName = (value: unknown): value is string => typeof value === 'string' && value !== ''
