import { isObject, type JsonObject } from './json-object.ts'

export { isObject, type JsonObject }

/** An own member of a value; undefined if the value is no object or has no such member. */
export const member = (value: unknown, key: string): unknown =>
  isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined

/** A string that is not empty. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/**
 * Whether a parsed object has a member with one of these names. Most objects have few members, so this takes less than a look-up
 * of each name.
 */
export function hasAny(object: JsonObject, names: ReadonlySet<string>): boolean {
  for (const name in object) if (names.has(name)) return true
  return false
}
