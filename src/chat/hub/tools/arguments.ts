import { isObject, type JsonObject } from '../../../domain/json-value.ts'
import { parseBounded } from '../../../wire/json-bounds.ts'

/** The member that holds the free text of a call, for formats whose arguments are objects. */
export const FREE_TEXT = 'input'
/** The member that holds arguments that are not an object. */
const RAW_ARGUMENTS = 'arguments'

/** The arguments of a call, for formats that require an object. Anything else becomes a text in a member of an object. */
export function parseArguments(text: string, lost: (field: string, message: string) => void): JsonObject {
  if (text.trim() === '') return {}
  try {
    const input: unknown = parseBounded(text)
    if (isObject(input)) return input
  } catch {
    // The arguments are not JSON. They are sent as text, with a warning to the client.
  }
  lost('arguments', 'are not a JSON object and are sent as a string inside one')
  return { [RAW_ARGUMENTS]: text }
}

export type ArgumentsWriter = { push(text: string): string; end(): string }

/**
 * The same for a stream: takes arguments in pieces and emits pieces that together form one JSON object. Free text, and
 * anything that does not start like an object, becomes a text in a member.
 */
export function createArgumentsWriter(isFreeText: boolean): ArgumentsWriter {
  let hasStarted = false
  let isText = isFreeText
  // Whitespace before the first character that reveals the kind of arguments.
  let blanks = ''
  const begin = (field: string) => `{${JSON.stringify(field)}:"`
  return {
    push(text) {
      if (hasStarted) return isText ? escaped(text) : text
      const pending = blanks + text
      const first = pending.trimStart().at(0)
      if (first === undefined && !isFreeText) {
        blanks = pending
        return ''
      }
      hasStarted = true
      isText = isFreeText || first !== '{'
      return isText ? begin(isFreeText ? FREE_TEXT : RAW_ARGUMENTS) + escaped(pending) : pending
    },
    end() {
      if (hasStarted) return isText ? '"}' : ''
      return isFreeText ? `${begin(FREE_TEXT)}"}` : '{}'
    },
  }
}

/** Separated halves of a surrogate pair are escaped one by one, so that they form the same character again. */
const escaped = (text: string): string => JSON.stringify(text).slice(1, -1)
