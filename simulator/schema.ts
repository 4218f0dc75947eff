import { isObject, textOf, type WireObject } from './json.ts'

// A recursive schema could describe an infinite value; beyond these limits only required parts are generated.
const DEPTH_OF_OPTIONAL = 4
const DEPTH_LIMIT = 24
const VALUE_LIMIT = 2_000

const SAMPLES_BY_FORMAT: WireObject = {
  date: '2025-01-31',
  time: '12:00:00Z',
  'date-time': '2025-01-31T12:00:00Z',
  email: 'someone@example.com',
  uri: 'https://example.com/',
  url: 'https://example.com/',
  hostname: 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uuid: '00000000-0000-4000-8000-000000000000',
  duration: 'PT1H',
}

type SampleContext = { readonly root: unknown; valuesLeft: number }

/**
 * A value that satisfies a simple JSON schema, always the same one. Understood: `type`, `properties`, `required`,
 * `items`, `prefixItems`, `enum`, `const`, `default`, `anyOf`, `oneOf`, `allOf`, local `$ref`, and the bounds of
 * lengths, sizes and numbers. Not understood: `pattern`, `not`, conditions.
 */
export function sampleOf(schema: unknown, name: string): unknown {
  return sample(schema, name, 0, { root: schema, valuesLeft: VALUE_LIMIT })
}

function sample(subschema: unknown, name: string, depth: number, walk: SampleContext): unknown {
  walk.valuesLeft -= 1
  if (depth > DEPTH_LIMIT || walk.valuesLeft < 0) return null
  if (!isObject(subschema)) return sampleText({}, name)
  const schema = withAllOf(subschema, walk.root)
  if ('const' in schema) return schema.const
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return schema.enum[0]
  if ('default' in schema) return schema.default
  const reference = textOf(schema.$ref)
  if (reference !== undefined) return sample(resolve(walk.root, reference), name, depth + 1, walk)
  const alternatives = schema.anyOf ?? schema.oneOf
  if (Array.isArray(alternatives)) return sample(preferred(alternatives, depth), name, depth + 1, walk)
  const type = typeOf(schema, depth)
  return Object.hasOwn(SAMPLERS, type)
    ? SAMPLERS[type]?.(schema, name, depth, walk)
    : sampleText(schema, name)
}

const SAMPLERS: Record<
  string,
  (schema: WireObject, name: string, depth: number, walk: SampleContext) => unknown
> = {
  object: sampleObject,
  array: sampleArray,
  string: sampleText,
  integer: schema => sampleNumber(schema, 1),
  number: schema => sampleNumber(schema, 0),
  boolean: () => true,
  null: () => null,
}

function typeOf(schema: WireObject, depth: number): string {
  const { type } = schema
  // Google's SDKs use upper case.
  if (typeof type === 'string') return type.toLowerCase()
  if (Array.isArray(type)) {
    // Beyond the depth limit a nullable value is null, which ends optional recursion in strict schemas.
    if (depth > DEPTH_OF_OPTIONAL && type.includes('null')) return 'null'
    return String(type.find(one => one !== 'null') ?? 'null')
  }
  if (isObject(schema.properties)) return 'object'
  return 'items' in schema || 'prefixItems' in schema ? 'array' : 'string'
}

function preferred(alternatives: readonly unknown[], depth: number): unknown {
  const isNull = (one: unknown) => isObject(one) && one.type === 'null'
  const isPreferred = depth > DEPTH_OF_OPTIONAL ? isNull : (one: unknown) => !isNull(one)
  return alternatives.find(isPreferred) ?? alternatives[0]
}

function withAllOf(schema: WireObject, root: unknown): WireObject {
  if (!Array.isArray(schema.allOf)) return schema
  const { allOf, ...own } = schema
  let merged: WireObject = own
  for (const part of schema.allOf) {
    const reference = isObject(part) ? textOf(part.$ref) : undefined
    const other = reference === undefined ? part : resolve(root, reference)
    if (isObject(other)) merged = merge(merged, other)
  }
  return merged
}

function merge(one: WireObject, other: WireObject): WireObject {
  const properties = { ...asObject(one.properties), ...asObject(other.properties) }
  const required = [...asArray(one.required), ...asArray(other.required)]
  const merged = { ...one, ...other }
  return Object.keys(properties).length === 0 ? merged : { ...merged, properties, required }
}

function resolve(root: unknown, reference: string): unknown {
  if (!reference.startsWith('#')) return undefined
  let target = root
  for (const step of reference.split('/').slice(1)) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
    target = isObject(target) && Object.hasOwn(target, name) ? target[name] : undefined
  }
  return target
}

function sampleObject(schema: WireObject, _name: string, depth: number, walk: SampleContext): unknown {
  const required = asArray(schema.required)
  const included = Object.entries(asObject(schema.properties)).filter(
    ([name]) => depth <= DEPTH_OF_OPTIONAL || required.includes(name),
  )
  return Object.fromEntries(
    included.map(([name, property]) => [name, sample(property, name, depth + 1, walk)]),
  )
}

function sampleArray(schema: WireObject, name: string, depth: number, walk: SampleContext): unknown {
  const prefix = asArray(schema.prefixItems)
  const values = prefix.map(item => sample(item, name, depth + 1, walk))
  const least = numberOf(schema.minItems) ?? 0
  const itemCount = depth > DEPTH_OF_OPTIONAL ? least : Math.max(least, 1)
  const most = Math.min(
    numberOf(schema.maxItems) ?? itemCount,
    schema.items === false ? values.length : itemCount,
  )
  while (values.length < most && walk.valuesLeft > 0) values.push(sample(schema.items, name, depth + 1, walk))
  return values
}

function sampleText(schema: WireObject, name: string): unknown {
  const format = textOf(schema.format)
  if (format !== undefined && Object.hasOwn(SAMPLES_BY_FORMAT, format)) return SAMPLES_BY_FORMAT[format]
  const least = Math.min(numberOf(schema.minLength) ?? 0, VALUE_LIMIT)
  const text = `simulated ${name}`.padEnd(least, '.')
  return text.slice(0, numberOf(schema.maxLength) ?? text.length)
}

function sampleNumber(schema: WireObject, smallestStep: 0 | 1): number {
  const step = numberOf(schema.multipleOf) ?? 1
  const over = numberOf(schema.exclusiveMinimum)
  const under = numberOf(schema.exclusiveMaximum)
  const least = numberOf(schema.minimum) ?? over ?? Number.NEGATIVE_INFINITY
  const most = numberOf(schema.maximum) ?? under ?? Number.POSITIVE_INFINITY
  const fits = (value: number) =>
    value >= least &&
    value <= most &&
    (over === undefined || value > over) &&
    (under === undefined || value < under)
  const candidates = [step, Math.ceil(least / step) * step, (Math.floor(least / step) + 1) * step]
  candidates.push(Math.floor(most / step) * step, (Math.ceil(most / step) - 1) * step)
  const fitting = candidates.find(value => Number.isFinite(value) && fits(value))
  if (fitting !== undefined) return fitting
  const middle = (least + most) / 2
  return smallestStep === 0 && Number.isFinite(middle) ? middle : step
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}

function asObject(value: unknown): WireObject {
  return isObject(value) ? value : {}
}

function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
