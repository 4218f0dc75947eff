import { isObject, type JsonObject } from '../../../domain/json-value.ts'
import type { Warnings } from '../../hub/warnings.ts'

/** Members that contain nested schemas. */
const MAPS = new Set(['properties', '$defs', 'definitions'])
const LISTS = new Set(['anyOf', 'allOf'])

/** Rules that the vendor enforces. It rejects a schema with any others. */
const ENFORCED = new Set([
  '$ref',
  'additionalProperties',
  'const',
  'default',
  'description',
  'enum',
  'items',
  'required',
  'title',
  'type',
  ...MAPS,
  ...LISTS,
])

const FORMATS = new Set([
  'date-time',
  'time',
  'date',
  'duration',
  'email',
  'hostname',
  'uri',
  'ipv4',
  'ipv6',
  'uuid',
])

/** Annotations without effect on validation: they are removed without a warning. */
const REMARKS = new Set(['$schema', '$id', '$comment', 'examples', 'deprecated', 'readOnly', 'writeOnly'])

const isHeld = (name: string, value: unknown): boolean =>
  ENFORCED.has(name) ||
  (name === 'format' && FORMATS.has(String(value))) ||
  (name === 'minItems' && (value === 0 || value === 1))

/**
 * Converts a schema to one that Claude enforces for answers and strict tools: objects are closed, and unsupported rules
 * become text in descriptions.
 */
export function enforcedSchema(schema: JsonObject, path: string, warnings: Warnings): JsonObject {
  const { oneOf, ...rest } = schema as Record<string, unknown>
  const source = oneOf === undefined || rest.anyOf !== undefined ? rest : { ...rest, anyOf: oneOf }
  const result: Record<string, unknown> = {}
  const descriptions: string[] = []
  for (const [name, value] of Object.entries(source)) {
    if (REMARKS.has(name)) continue
    if (isHeld(name, value))
      result[name] = nested(name, value, inner => enforcedSchema(inner, path, warnings))
    else descriptions.push(`${name}: ${JSON.stringify(value)}`)
  }
  if (isOfObjects(result)) {
    if (result.additionalProperties === true || isObject(result.additionalProperties)) {
      warnings.lost(path, 'objects cannot have additional properties')
    }
    result.additionalProperties = false
  }
  if (descriptions.length === 0) return result
  warnings.lost(path, 'constraints that cannot be enforced are added to the description')
  return {
    ...result,
    description: [result.description, `(${descriptions.join(', ')})`].filter(Boolean).join(' '),
  }
}

const isOfObjects = ({ type, properties }: JsonObject): boolean =>
  type === 'object' || (Array.isArray(type) && type.includes('object')) || properties !== undefined

function nested(name: string, value: unknown, change: (schema: JsonObject) => JsonObject): unknown {
  const changed = (inner: unknown) => (isObject(inner) ? change(inner) : inner)
  if (name === 'items') return changed(value)
  if (LISTS.has(name) && Array.isArray(value)) return value.map(changed)
  if (!MAPS.has(name) || !isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, changed(inner)]))
}

/** The vendor's limits for all strict tools of one request together. */
const LIMITS = { tools: 20, optional: 24, unions: 16 } as const

/** Returns a function that decides for one tool after another whether it can be strict within these limits. */
export function createStrictness(): (schema: JsonObject) => boolean {
  const used = { tools: 0, optional: 0, unions: 0 }
  return schema => {
    const own = { tools: 1, ...countParameters(schema) }
    const isWithin = (['tools', 'optional', 'unions'] as const).every(
      each => used[each] + own[each] <= LIMITS[each],
    )
    if (isWithin) for (const each of ['tools', 'optional', 'unions'] as const) used[each] += own[each]
    return isWithin
  }
}

function countParameters(schema: JsonObject): { readonly optional: number; readonly unions: number } {
  const required = Array.isArray(schema.required) ? schema.required : []
  const parameters = isObject(schema.properties) ? Object.entries(schema.properties) : []
  let optional = parameters.filter(([name]) => !required.includes(name)).length
  let unions = Array.isArray(schema.type) || Array.isArray(schema.anyOf) ? 1 : 0
  const inner = [
    ...parameters.map(([, each]) => each),
    schema.items,
    ...(Array.isArray(schema.anyOf) ? schema.anyOf : []),
    ...(isObject(schema.$defs) ? Object.values(schema.$defs) : []),
  ]
  for (const each of inner.filter(isObject)) {
    const counted = countParameters(each)
    optional += counted.optional
    unions += counted.unions
  }
  return { optional, unions }
}
