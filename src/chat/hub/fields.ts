import { isObject, type JsonObject, member } from '../../domain/json-value.ts'
import type { RequestFault } from '../../requests/request-fields.ts'
import type { Extras } from './hub.ts'

/** Thrown only inside a request decoder; `decoding` turns it into a fault. */
class FieldError extends Error {
  readonly fault: RequestFault

  constructor(fault: RequestFault) {
    super(fault.message)
    this.name = 'FieldError'
    this.fault = fault
  }
}

/**
 * Reads the fields of one object by name. A null field counts as absent. A strict reader rejects a wrong type with its
 * path; a lenient reader, for answers of vendors, treats it as absent.
 */
export type FieldReader = {
  readonly value: JsonObject
  readonly isStrict: boolean
  /** The path of the object itself; empty for the whole body. */
  readonly ownPath: string
  any(name: string): unknown
  text(name: string): string | undefined
  number(name: string): number | undefined
  /** An integer of at least 1. */
  count(name: string, max?: number): number | undefined
  flag(name: string): boolean | undefined
  list(name: string): readonly unknown[] | undefined
  texts(name: string): readonly string[] | undefined
  object(name: string): JsonObject | undefined
  /** The fields of a nested object. Its unread fields are not part of this object's `rest`. */
  fields(name: string): FieldReader | undefined
  /** The objects of a list. */
  each(name: string): readonly FieldReader[]
  needText(name: string): string
  needList(name: string): readonly unknown[]
  needFields(name: string): FieldReader
  /** All unread fields: a decoder stores them as extras, so that new fields survive. */
  rest(): JsonObject | undefined
  refuse(name: string, message: string): never
  missing(name: string): never
  path(name: string): string
}

const JSON_TYPES = {
  text: { typeName: 'a text', is: (value: unknown): value is string => typeof value === 'string' },
  number: {
    typeName: 'a number',
    is: (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value),
  },
  flag: { typeName: 'true or false', is: (value: unknown): value is boolean => typeof value === 'boolean' },
  list: { typeName: 'a list', is: (value: unknown): value is readonly unknown[] => Array.isArray(value) },
  object: { typeName: 'an object', is: isObject },
} as const

/** Reads an object from a client: a wrong type is rejected. */
export const strictFields = (value: unknown, path: string): FieldReader => createFields(value, path, true)

/** Reads an object from a vendor: nothing is rejected. */
export const lenientFields = (value: unknown): FieldReader => createFields(value, '', false)

/** Runs a request decoder and returns its first fault. */
export function decoding<Request>(
  decode: () => Request,
): { readonly request: Request } | { readonly fault: RequestFault } {
  try {
    return { request: decode() }
  } catch (error) {
    if (error instanceof FieldError) return { fault: error.fault }
    throw error
  }
}

function createFields(source: unknown, path: string, isStrict: boolean): FieldReader {
  if (!isObject(source) && isStrict) throw objectExpected(path)
  const value = isObject(source) ? source : {}
  const readNames = new Set<string>()
  const pathOf = (name: string) => (path === '' ? name : `${path}.${name}`)

  const fields: FieldReader = {
    value,
    isStrict,
    ownPath: path,
    path: pathOf,
    any(name) {
      readNames.add(name)
      return member(value, name) ?? undefined
    },
    text: name => typed(name, JSON_TYPES.text),
    number: name => typed(name, JSON_TYPES.number),
    count(name, max = Number.MAX_SAFE_INTEGER) {
      const count = fields.number(name)
      const isCount = count === undefined || (Number.isInteger(count) && count >= 1 && count <= max)
      if (isCount || !isStrict) return isCount ? count : undefined
      const range = max === Number.MAX_SAFE_INTEGER ? 'of 1 or more' : `from 1 to ${max}`
      return fields.refuse(name, `must be an integer ${range}`)
    },
    flag: name => typed(name, JSON_TYPES.flag),
    list: name => typed(name, JSON_TYPES.list),
    object: name => typed(name, JSON_TYPES.object),
    texts(name) {
      const list = fields.list(name)
      if (isStrict && list?.some(each => typeof each !== 'string'))
        fields.refuse(name, 'must be a list of strings')
      return list?.filter(each => typeof each === 'string')
    },
    fields(name) {
      const inner = fields.object(name)
      return inner && createFields(inner, pathOf(name), isStrict)
    },
    each(name) {
      const list = fields.list(name) ?? []
      const objects = isStrict ? list : list.filter(isObject)
      return objects.map((each, index) => createFields(each, `${pathOf(name)}[${index}]`, isStrict))
    },
    needText: name => fields.text(name) ?? absent(name, ''),
    needList: name => fields.list(name) ?? absent(name, []),
    needFields: name => fields.fields(name) ?? absent(name, createFields({}, pathOf(name), false)),
    rest() {
      const unreadEntries = Object.entries(value).filter(([name]) => !readNames.has(name))
      return unreadEntries.length === 0 ? undefined : Object.fromEntries(unreadEntries)
    },
    missing(name) {
      const param = pathOf(name)
      throw new FieldError({ param, code: 'missing_parameter', message: `${param} is missing` })
    },
    refuse(name, message) {
      const param = pathOf(name)
      throw new FieldError({ param, code: 'invalid_parameter', message: `${param} ${message}` })
    },
  }
  return fields

  function typed<T>(
    name: string,
    { typeName, is }: { typeName: string; is(value: unknown): value is T },
  ): T | undefined {
    const value = fields.any(name)
    if (value === undefined || is(value)) return value
    return isStrict ? fields.refuse(name, `must be ${typeName}`) : undefined
  }

  function absent<T>(name: string, otherwise: T): T {
    return isStrict ? fields.missing(name) : otherwise
  }
}

function objectExpected(path: string): FieldError {
  return path === ''
    ? new FieldError({ param: null, code: 'invalid_json', message: 'The body must be a JSON object.' })
    : new FieldError({ param: path, code: 'invalid_parameter', message: `${path} must be an object` })
}

/** An object whose optional properties may be undefined. */
type WithUndefined<T> = {
  readonly [K in keyof T]: Record<never, never> extends Pick<T, K> ? T[K] | undefined : T[K]
}

/** Removes undefined properties. */
export function compact<T extends object>(source: WithUndefined<T>): T {
  const fields = source as Record<string, unknown>
  const result: Record<string, unknown> = {}
  for (const name of Object.keys(fields)) {
    // A client may send a field of any name; assigning to this one would set the prototype.
    if (name === '__proto__') Object.defineProperty(result, name, { value: fields[name], ...ORDINARY })
    else if (fields[name] !== undefined) result[name] = fields[name]
  }
  return result as T
}

const ORDINARY = { configurable: true, enumerable: true, writable: true }

/** The same for an object of the wire format. */
export const bodyOf = (source: JsonObject): JsonObject => compact<Record<string, unknown>>(source)

/** Unknown fields of a format as extras; undefined: none. */
export const extrasOf = (format: string, rest: JsonObject | undefined): Extras | undefined =>
  rest === undefined ? undefined : { [format]: rest }

/** The unread fields of an object, and `inner`: those of its objects that were read field by field. */
export function unreadFields(
  fields: FieldReader | undefined,
  inner: Readonly<Record<string, JsonObject | undefined>>,
): JsonObject | undefined {
  const rest = { ...fields?.rest(), ...compact<Record<string, unknown>>(inner) }
  return Object.keys(rest).length === 0 ? undefined : rest
}

/** The extras of this format. Spread them first, so that known fields override them. */
export const ownExtras = (format: string, { extras }: { readonly extras?: Extras }): JsonObject =>
  extras?.[format] ?? {}
