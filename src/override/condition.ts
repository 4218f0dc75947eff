import type { JsonObject } from '../domain/json-value.ts'
import { type FieldPath, readPath, valueAt } from './path.ts'
import { fault, type OverrideReading, readMembers } from './reading.ts'

const CONDITION_MODES = ['full', 'prefix', 'suffix', 'contains', 'gt', 'gte', 'lt', 'lte'] as const
type Mode = (typeof CONDITION_MODES)[number]

type Condition = {
  readonly path: FieldPath
  readonly mode: Mode
  readonly value: unknown
  readonly invert: boolean
  /** The result if the path has no value. */
  readonly passMissing: boolean
}

export type Conditions = { readonly all: boolean; readonly list: readonly Condition[] }

const MAX_CONDITIONS = 20
const MEMBERS = ['path', 'mode', 'value', 'invert', 'pass_missing_key'] as const
const NUMERIC: ReadonlySet<string> = new Set(['gt', 'gte', 'lt', 'lte'])

/** `conditions` and `logic` of an operation; an empty list always holds. */
export function readConditions({ conditions, logic }: JsonObject, at: string): OverrideReading<Conditions> {
  const word = logic ?? 'OR'
  if (typeof word !== 'string' || !['AND', 'OR'].includes(word.toUpperCase()))
    return fault(`${at}.logic`, 'must be AND or OR')
  const entries = conditions ?? []
  if (!Array.isArray(entries) || entries.length > MAX_CONDITIONS)
    return fault(`${at}.conditions`, `must be a list of at most ${MAX_CONDITIONS} conditions`)
  const list: Condition[] = []
  for (const [index, each] of entries.entries()) {
    const read = readCondition(each, `${at}.conditions.${index}`)
    if ('fault' in read) return read
    list.push(read.value)
  }
  return { value: { all: word.toUpperCase() === 'AND', list } }
}

function readCondition(entry: unknown, at: string): OverrideReading<Condition> {
  const members = readMembers(entry, MEMBERS, at)
  if ('fault' in members) return members
  const { path, mode = 'full', value, invert = false, pass_missing_key = false } = members.value
  const steps = readPath(path)
  if (steps === undefined) return fault(`${at}.path`, 'must be a path such as messages.0.role')
  if (!CONDITION_MODES.includes(mode as Mode))
    return fault(`${at}.mode`, `must be one of ${CONDITION_MODES.join(', ')}`)
  if (typeof invert !== 'boolean') return fault(`${at}.invert`, 'must be true or false')
  if (typeof pass_missing_key !== 'boolean') return fault(`${at}.pass_missing_key`, 'must be true or false')
  if (NUMERIC.has(mode as string) && typeof value !== 'number')
    return fault(`${at}.value`, 'must be a number for this mode')
  if (mode !== 'full' && !NUMERIC.has(mode as string) && typeof value !== 'string')
    return fault(`${at}.value`, 'must be a string for this mode')
  return { value: { path: steps, mode: mode as Mode, value, invert, passMissing: pass_missing_key } }
}

const COMPARISONS: Readonly<Record<Mode, (actual: unknown, value: unknown) => boolean>> = {
  full: (actual, value) => actual === value || JSON.stringify(actual) === JSON.stringify(value),
  prefix: (actual, value) => typeof actual === 'string' && actual.startsWith(value as string),
  suffix: (actual, value) => typeof actual === 'string' && actual.endsWith(value as string),
  contains: (actual, value) =>
    typeof actual === 'string'
      ? actual.includes(value as string)
      : Array.isArray(actual) && actual.some(each => each === value),
  gt: (actual, value) => typeof actual === 'number' && actual > (value as number),
  gte: (actual, value) => typeof actual === 'number' && actual >= (value as number),
  lt: (actual, value) => typeof actual === 'number' && actual < (value as number),
  lte: (actual, value) => typeof actual === 'number' && actual <= (value as number),
}

/** Looks a path up in the body, then in the other facts of the request. */
export function areMet({ all, list }: Conditions, body: JsonObject, facts: JsonObject = {}): boolean {
  if (list.length === 0) return true
  const holds = ({ path, mode, value, invert, passMissing }: Condition) => {
    const actual = valueAt(body, path) ?? valueAt(facts, path)
    return actual === undefined ? passMissing : COMPARISONS[mode](actual, value) !== invert
  }
  return all ? list.every(holds) : list.some(holds)
}
