import { parseBounded } from '../wire/json-bounds.ts'
import { isObject, type JsonObject } from './openai/value.ts'

/** The arguments of a call for formats that want an object; what the model wrote otherwise is a text inside of one. */
export function parseArguments(text: string, lost: (field: string, message: string) => void): JsonObject {
  if (text.trim() === '') return {}
  try {
    const input: unknown = parseBounded(text)
    if (isObject(input)) return input
  } catch {
    // What the model wrote is no JSON; it is passed on as a text below, and the client is told.
  }
  lost('arguments', 'are no JSON object and are sent as a text inside of one')
  return { arguments: text }
}
