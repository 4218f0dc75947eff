import { isObject, type WireObject } from '../json.ts'

/** Members with the client's own names. */
const OPAQUE = new Set([
  'args',
  'response',
  'parameters',
  'parametersJsonSchema',
  'responseSchema',
  'responseJsonSchema',
  'labels',
])

const inCamelCase = (name: string): string => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase())

/** The vendor reads every field in two spellings: `inline_data` is `inlineData`. */
export function inOneSpelling(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOneSpelling)
  return isObject(value) ? fieldsInOneSpelling(value) : value
}

export function fieldsInOneSpelling(fields: WireObject): WireObject {
  const entries = Object.entries(fields).map(([spelling, value]): [string, unknown] => {
    const name = inCamelCase(spelling)
    return [name, OPAQUE.has(name) ? value : inOneSpelling(value)]
  })
  return Object.fromEntries(entries)
}
