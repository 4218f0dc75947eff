import { isObject, type JsonObject } from '../domain/json-value.ts'

/** A fault of an override, and its path, which begins with a dot and follows the name of the field. */
export type OverrideFault = {
  readonly path: string
  readonly message: string
  /** The fault is a regular expression that an earlier version may have accepted. */
  readonly isExpression?: true
}
export type OverrideReading<Value> = { readonly value: Value } | { readonly fault: OverrideFault }

export const fault = (path: string, message: string): { fault: OverrideFault } => ({
  fault: { path, message },
})

/** An object with only these members: a misspelled one would change the meaning of the others. */
export function readMembers(
  value: unknown,
  names: readonly string[],
  at: string,
): OverrideReading<JsonObject> {
  if (!isObject(value)) return fault(at, 'must be an object')
  const unknownName = Object.keys(value).find(name => !names.includes(name))
  if (unknownName !== undefined)
    return fault(
      `${at}.${unknownName.slice(0, 100)}`,
      `is not a known field; known fields are ${names.join(', ')}`,
    )
  // Some clients send null for absent members; only `value` can be set to null.
  const entries = Object.entries(value).filter(([name, value]) => value !== null || name === 'value')
  return { value: Object.fromEntries(entries) }
}
