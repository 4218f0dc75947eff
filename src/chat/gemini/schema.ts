import { isObject, type JsonObject } from '../../domain/json-value.ts'
import type { Warnings } from '../hub/warnings.ts'

/** Members that contain nested schemas. */
const MAPS = new Set(['properties', '$defs', 'definitions'])
const LISTS = new Set(['anyOf', 'oneOf', 'prefixItems'])
const INNER = new Set(['items', 'additionalProperties'])

// --- Vendor schema to JSON schema ----------------------------------------------------------------------------------

const COUNTS = new Set(['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties'])

/** Converts the vendor's OpenAPI schema (upper-case types, counts as text) to a JSON schema. */
export function fromOpenApi(schema: JsonObject): JsonObject {
  const { nullable, propertyOrdering, example, ...rest } = schema as Record<string, unknown>
  const read: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(rest)) {
    if (name === 'type' && typeof value === 'string') read.type = value.toLowerCase()
    else if (COUNTS.has(name) && typeof value === 'string') read[name] = Number(value)
    else read[name] = nested(name, value, inner => fromOpenApi(inner))
  }
  if (nullable === true && typeof read.type === 'string') read.type = [read.type, 'null']
  if (example !== undefined) read.examples = [example]
  if (Array.isArray(propertyOrdering) && isObject(read.properties)) {
    read.properties = ordered(read.properties, propertyOrdering)
  }
  return read
}

/** The vendor lists the order of properties separately; in JSON it is the order of members. */
function ordered(properties: JsonObject, order: readonly unknown[]): JsonObject {
  const first = order.filter(name => typeof name === 'string' && Object.hasOwn(properties, name)) as string[]
  return { ...Object.fromEntries(first.map(name => [name, properties[name]])), ...properties }
}

function nested(name: string, value: unknown, change: (schema: JsonObject) => JsonObject): unknown {
  const changed = (inner: unknown) => (isObject(inner) ? change(inner) : inner)
  if (INNER.has(name)) return changed(value)
  if (LISTS.has(name) && Array.isArray(value)) return value.map(changed)
  if (!MAPS.has(name) || !isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, changed(inner)]))
}

// --- JSON schema to vendor schema ----------------------------------------------------------------------------------

/** Annotations without effect on validation: they are removed without a warning. */
const REMARKS = new Set(['$schema', '$id', '$comment', 'examples', 'deprecated', 'readOnly', 'writeOnly'])

/** Rules that the vendor rejects or does not enforce. */
const UNKNOWN = new Set([
  'contains',
  'contentEncoding',
  'contentMediaType',
  'dependentRequired',
  'dependentSchemas',
  'discriminator',
  'else',
  'exclusiveMaximum',
  'exclusiveMinimum',
  'if',
  'maxContains',
  'minContains',
  'multipleOf',
  'not',
  'patternProperties',
  'propertyNames',
  'then',
  'unevaluatedItems',
  'unevaluatedProperties',
  'uniqueItems',
])

const FORMATS = new Set(['date-time', 'date', 'time', 'enum', 'float', 'double', 'int32', 'int64'])

/** Converts a JSON schema to the vendor's form. `path`: its location, for warnings. */
export function toVendorSchema(schema: JsonObject, path: string, warnings: Warnings): JsonObject {
  const result: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(mergedAll(schema))) {
    if (REMARKS.has(name)) continue
    if (UNKNOWN.has(name) || (name === 'format' && !FORMATS.has(String(value)))) {
      warnings.lost(`${path}.${name}`, 'is not supported by this provider and was left out')
    } else if (name === 'const') result.enum = [value]
    else result[name] = nested(name, value, inner => toVendorSchema(inner, `${path}.${name}`, warnings))
  }
  return result
}

/** The vendor does not support `allOf`, so its schemas are merged. */
function mergedAll(schema: JsonObject): JsonObject {
  const { allOf, ...rest } = schema as Record<string, unknown>
  if (!Array.isArray(allOf)) return schema
  let merged: JsonObject = rest
  for (const each of allOf.filter(isObject)) merged = mergedTwo(merged, mergedAll(each))
  return merged
}

function mergedTwo(one: JsonObject, other: JsonObject): JsonObject {
  const both = (name: string) => isObject(one[name]) && isObject(other[name])
  const required = [one.required, other.required].flatMap(list => (Array.isArray(list) ? list : []))
  return {
    ...one,
    ...other,
    ...(both('properties') && {
      properties: { ...(one.properties as object), ...(other.properties as object) },
    }),
    ...(required.length > 0 && { required: [...new Set(required)] }),
  }
}

/** A tool without parameters: the vendor requires that its schema is absent. */
export const isEmptySchema = ({
  properties,
  $ref,
  anyOf,
  oneOf,
  allOf,
  additionalProperties,
}: JsonObject): boolean =>
  (properties === undefined || (isObject(properties) && Object.keys(properties).length === 0)) &&
  [$ref, anyOf, oneOf, allOf].every(each => each === undefined) &&
  !additionalProperties
