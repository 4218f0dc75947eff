import { isObject, type JsonObject } from '../../../domain/json-value.ts'

/**
 * The format of a custom tool's text. Its grammar is an object of its own in chat completions. In the Responses format and
 * in the hub, the members of the grammar are beside the type.
 */
export function decodeGrammar(format: JsonObject | undefined): JsonObject | undefined {
  if (!isObject(format?.grammar)) return format
  const { grammar, ...rest } = format
  return { ...rest, ...grammar }
}

export function encodeGrammar(format: JsonObject | undefined): JsonObject | undefined {
  if (format?.type !== 'grammar') return format
  const { type, ...grammar } = format
  return { type, grammar }
}
