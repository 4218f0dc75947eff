import type { JsonObject } from '../../domain/json-value.ts'

/** A part with nothing but text. */
export const isPlainText = (part: JsonObject | undefined, type = 'text'): boolean =>
  part?.type === type && Object.keys(part).length === 2

/** A single plain text is encoded as a string: every host accepts that, but not every one accepts a list. */
export function plainOrList(parts: readonly JsonObject[], type?: string): string | readonly JsonObject[] {
  const [only] = parts
  if (only === undefined) return ''
  return parts.length === 1 && isPlainText(only, type) ? (only.text as string) : parts
}
