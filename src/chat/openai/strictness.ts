import { isObject, type JsonObject } from '../../domain/json-value.ts'
import type { FunctionTool } from '../hub/hub.ts'
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
