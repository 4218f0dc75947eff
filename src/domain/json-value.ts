import { isObject, type JsonObject } from './json-object.ts'

export { isObject, type JsonObject }

/** A member of something that may be no object at all; never one that every object inherits. */
export const member = (value: unknown, key: string): unknown =>
  isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined

/** A text that says something. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined
