import type { JsonObject } from '../../domain/json-value.ts'

/** A part that says nothing but its text. */
export const isPlainText = (part: JsonObject | undefined, type = 'text'): boolean =>
  part?.type === type && Object.keys(part).length === 2

/** One plain text is written as such: every host takes it, and not every one takes a list. */
export function plainOrList(parts: readonly JsonObject[], type?: string): string | readonly JsonObject[] {
  const [only] = parts
  if (only === undefined) return ''
  return parts.length === 1 && isPlainText(only, type) ? (only.text as string) : parts
}
