import { isObject, type JsonObject, member } from '../domain/json-value.ts'
import { warningsHeader } from '../domain/warning.ts'
import { ROUTING, ROUTING_FIELDS, spellingsOf } from './field-names.ts'

const ALL: ReadonlySet<string> = new Set(spellingsOf(ROUTING_FIELDS))
const UNPRICED: ReadonlySet<string> = new Set(spellingsOf(ROUTING.unpriced))
const NAMING = spellingsOf(ROUTING.naming)

export const isRoutingField = (name: string) => ALL.has(name)

/** A routing field that no channel forwards. */
export const isUnpricedRouting = (name: string) => UNPRICED.has(name)

/** The fields of a body that would choose another model or host; a null field has no effect. */
export const routingFieldsIn = (body: JsonObject): readonly string[] =>
  Object.keys(body).filter(name => isRoutingField(name) && (member(body, name) ?? null) !== null)

export const withoutRouting = (body: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(body).filter(([name]) => !isRoutingField(name)))

/** Every model that the routing fields of a body name: all texts in them, since their shapes differ. */
export function modelsNamedIn(body: JsonObject): readonly string[] {
  const names = new Set<string>()
  const gather = (value: unknown): void => {
    if (typeof value === 'string') names.add(value)
    else if (Array.isArray(value)) value.forEach(gather)
    else if (isObject(value)) Object.values(value).forEach(gather)
  }
  for (const field of NAMING) gather(member(body, field))
  return [...names]
}

/** The warning to the client about removed fields. */
export const removedWarning = (fields: readonly string[]): string =>
  warningsHeader(fields.map(field => ({ field, message: 'chooses another model or host, and was removed' })))
