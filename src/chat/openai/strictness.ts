import { isObject, type JsonObject } from '../../domain/json-value.ts'
import type { FunctionTool, Output } from '../hub/hub.ts'
import type { Warnings } from '../hub/warnings.ts'

/** Whether a tool can be strict. The vendor rejects a request if the schema of a strict tool does not fit its rules. */
export function strictnessOf(
  { strict, parameters = {} }: FunctionTool,
  path: string,
  warnings: Warnings,
): boolean | undefined {
  if (strict !== true || isClosed(parameters)) return strict
  warnings.lost(`${path}.strict`, 'cannot be guaranteed and was left out')
  return undefined
}

/** In a strict schema all objects are closed and all of their properties are required. Other vendors have optional ones. */
function isClosed(schema: JsonObject): boolean {
  const { properties = {}, required, additionalProperties, items, anyOf, $defs, definitions } = schema
  const names = Object.keys(isObject(properties) ? properties : {})
  const isOfObjects = schema.type === 'object' || names.length > 0
  const isRequired = (name: string) => Array.isArray(required) && required.includes(name)
  if (isOfObjects && (additionalProperties !== false || !names.every(isRequired))) return false
  const maps = [properties, $defs, definitions].filter(isObject).flatMap(map => Object.values(map))
  return [...maps, items, ...(Array.isArray(anyOf) ? anyOf : [])].filter(isObject).every(isClosed)
}

/**
 * The rules of a strict schema that OpenAI and Azure both know. With any other rule the vendor would reject the request, which it serves
 * without `strict`.
 */
const STRICT_RULES: ReadonlySet<string> = new Set([
  '$defs',
  '$ref',
  'additionalProperties',
  'anyOf',
  'const',
  'definitions',
  'description',
  'enum',
  'items',
  'properties',
  'required',
  'title',
  'type',
])
const STRICT_MOST = { levels: 5, properties: 100 }

/** Whether an answer must fit its schema. Clients whose format enforces schemas expect that, wherever the vendor can do it. */
export function outputStrictnessOf(output: Output & { type: 'schema' }): boolean | undefined {
  const { schema, strict, isEnforced } = output
  if (strict !== undefined || !isEnforced) return strict
  const canBeStrict =
    schema.type === 'object' && schema.anyOf === undefined && isClosed(schema) && isPlain(schema)
  return canBeStrict ? true : undefined
}

/** Whether a schema has only these rules, and is not too large for them. */
function isPlain(schema: JsonObject): boolean {
  let properties = 0
  const areAll = (parts: readonly unknown[], level: number): boolean =>
    parts.every(part => isObject(part) && isPlainAt(part, level))
  const isPlainAt = (part: JsonObject, level: number): boolean => {
    const { properties: fields = {}, items, anyOf = [], $defs = {}, definitions = {} } = part
    if (level > STRICT_MOST.levels || !Object.keys(part).every(rule => STRICT_RULES.has(rule))) return false
    if (!isObject(fields) || !isObject($defs) || !isObject(definitions) || !Array.isArray(anyOf)) return false
    properties += Object.keys(fields).length
    return (
      properties <= STRICT_MOST.properties &&
      areAll([...Object.values(fields), ...(items === undefined ? [] : [items])], level + 1) &&
      areAll([...anyOf, ...Object.values($defs), ...Object.values(definitions)], level)
    )
  }
  return isPlainAt(schema, 1)
}
