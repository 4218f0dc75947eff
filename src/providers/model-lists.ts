import { memberOf } from './member.ts'

/** Extracts the model names from a parsed response of any shape. */
export type ModelNames = (body: unknown) => readonly string[]

/** Reads `body[list][…][name]`; without `list`, the body itself is the array. */
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

/** The list has names with the prefix `models/`, which requests omit. */
export const geminiModels: ModelNames = body => [
  ...new Set(
    ollamaModels(body)
      .map(name => name.replace(/^models\//, ''))
      .filter(isName),
  ),
]

/** Combines readers, for a response with several lists or several possible shapes. */
export const allOf =
  (...readers: readonly ModelNames[]): ModelNames =>
  body => [...new Set(readers.flatMap(reader => reader(body)))]

const isName = (value: unknown): value is string => typeof value === 'string' && value !== ''
