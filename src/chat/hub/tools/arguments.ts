import { isObject, type JsonObject } from '../../../domain/json-value.ts'
import { parseBounded } from '../../../wire/json-bounds.ts'

/** The member that holds the free text of a call, where a format knows objects only. */
export const FREE_TEXT = 'input'
/** The member that holds what a model wrote in place of an object. */
const WRITTEN = 'arguments'

/** The arguments of a call for formats that want an object; what the model wrote otherwise is a text inside of one. */
export function parseArguments(text: string, lost: (field: string, message: string) => void): JsonObject {
  if (text.trim() === '') return {}
  try {
    const input: unknown = parseBounded(text)
    if (isObject(input)) return input
  } catch {
    // What the model wrote is no JSON; it is passed on as a text below, and the client is told.
  }
  lost('arguments', 'are not a JSON object and are sent as a string inside one')
  return { [WRITTEN]: text }
}

export type ArgumentsWriter = { push(text: string): string; end(): string }

/**
 * The same for a stream: takes the arguments of a call piece by piece and gives pieces that together are one JSON object.
 * Free text, and what does not begin like an object, becomes a text inside of one.
 */
export function createArgumentsWriter(isFreeText: boolean): ArgumentsWriter {
  let isBegun = false
  let isText = isFreeText
  // Blanks before the first character that tells what the arguments are.
  let blanks = ''
  const begin = (field: string) => `{${JSON.stringify(field)}:"`
  return {
    push(text) {
      if (isBegun) return isText ? escaped(text) : text
      const pending = blanks + text
      const first = pending.trimStart().at(0)
      if (first === undefined && !isFreeText) {
        blanks = pending
        return ''
      }
      isBegun = true
      isText = isFreeText || first !== '{'
      return isText ? begin(isFreeText ? FREE_TEXT : WRITTEN) + escaped(pending) : pending
    },
    end() {
      if (isBegun) return isText ? '"}' : ''
      return isFreeText ? `${begin(FREE_TEXT)}"}` : '{}'
    },
  }
}

/** Halves of a surrogate pair that come apart are escaped one by one, so that they make the same character again. */
const escaped = (text: string): string => JSON.stringify(text).slice(1, -1)
