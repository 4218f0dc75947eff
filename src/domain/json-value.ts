import { isObject, type JsonObject } from './json-object.ts'

export { isObject, type JsonObject }

/** A member of a value that may be no object. Inherited members do not count. */
export const member = (value: unknown, key: string): unknown =>
  isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined

/** A string that is not empty. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined
