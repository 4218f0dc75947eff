import { isObject, type JsonObject } from '../domain/json-value.ts'

/** What is wrong with an override, and where: the path begins with a dot, behind the name of the field. */
export type OverrideFault = {
  readonly path: string
  readonly message: string
  /** Only a regular expression is wrong, which an earlier version may have accepted. */
  readonly isExpression?: true
}
export type OverrideReading<Value> = { readonly value: Value } | { readonly fault: OverrideFault }

export const fault = (path: string, message: string): { fault: OverrideFault } => ({
  fault: { path, message },
})

/** An object with no members but these: one that is misspelt would change what the rest means. */
export function readMembers(
  value: unknown,
  names: readonly string[],
  at: string,
): OverrideReading<JsonObject> {
  if (!isObject(value)) return fault(at, 'must be an object')
  const strange = Object.keys(value).find(name => !names.includes(name))
  if (strange !== undefined)
    return fault(
      `${at}.${strange.slice(0, 100)}`,
      `is not a known field; known fields are ${names.join(', ')}`,
    )
  // null is how some clients write what they leave out, but to set a value to null is something to say.
  const entries = Object.entries(value).filter(([name, value]) => value !== null || name === 'value')
  return { value: Object.fromEntries(entries) }
}
