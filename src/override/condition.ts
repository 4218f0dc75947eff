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
  /** What counts where nothing stands at the path. */
  readonly passMissing: boolean
}

export type Conditions = { readonly all: boolean; readonly list: readonly Condition[] }

const MAX_CONDITIONS = 20
const MEMBERS = ['path', 'mode', 'value', 'invert', 'pass_missing_key'] as const
const NUMERIC: ReadonlySet<string> = new Set(['gt', 'gte', 'lt', 'lte'])

/** `conditions` and `logic` of an operation; none at all always hold. */
export function readConditions({ conditions, logic }: JsonObject, at: string): OverrideReading<Conditions> {
  const word = logic ?? 'OR'
  if (typeof word !== 'string' || !['AND', 'OR'].includes(word.toUpperCase()))
    return fault(`${at}.logic`, 'must be AND or OR')
  const given = conditions ?? []
  if (!Array.isArray(given) || given.length > MAX_CONDITIONS)
    return fault(`${at}.conditions`, `must be a list of at most ${MAX_CONDITIONS} conditions`)
  const list: Condition[] = []
  for (const [index, each] of given.entries()) {
    const read = readCondition(each, `${at}.conditions.${index}`)
    if ('fault' in read) return read
    list.push(read.value)
  }
  return { value: { all: word.toUpperCase() === 'AND', list } }
}

function readCondition(given: unknown, at: string): OverrideReading<Condition> {
  const members = readMembers(given, MEMBERS, at)
  if ('fault' in members) return members
  const { path, mode = 'full', value, invert = false, pass_missing_key = false } = members.value
  const steps = readPath(path)
  if (steps === undefined) return fault(`${at}.path`, 'must be a path, such as messages.0.role')
  if (!CONDITION_MODES.includes(mode as Mode))
    return fault(`${at}.mode`, `must be one of ${CONDITION_MODES.join(', ')}`)
  if (typeof invert !== 'boolean') return fault(`${at}.invert`, 'must be true or false')
  if (typeof pass_missing_key !== 'boolean') return fault(`${at}.pass_missing_key`, 'must be true or false')
  if (NUMERIC.has(mode as string) && typeof value !== 'number')
    return fault(`${at}.value`, 'must be a number for this mode')
  if (mode !== 'full' && !NUMERIC.has(mode as string) && typeof value !== 'string')
    return fault(`${at}.value`, 'must be a text for this mode')
  return { value: { path: steps, mode: mode as Mode, value, invert, passMissing: pass_missing_key } }
}

const HOLDS: Readonly<Record<Mode, (found: unknown, value: unknown) => boolean>> = {
  full: (found, value) => found === value || JSON.stringify(found) === JSON.stringify(value),
  prefix: (found, value) => typeof found === 'string' && found.startsWith(value as string),
  suffix: (found, value) => typeof found === 'string' && found.endsWith(value as string),
  contains: (found, value) =>
    typeof found === 'string'
      ? found.includes(value as string)
      : Array.isArray(found) && found.some(each => each === value),
  gt: (found, value) => typeof found === 'number' && found > (value as number),
  gte: (found, value) => typeof found === 'number' && found >= (value as number),
  lt: (found, value) => typeof found === 'number' && found < (value as number),
  lte: (found, value) => typeof found === 'number' && found <= (value as number),
}

/** Looks a path up in the body, then in what else is known of the request. */
export function doHold({ all, list }: Conditions, body: JsonObject, facts: JsonObject = {}): boolean {
  if (list.length === 0) return true
  const holds = ({ path, mode, value, invert, passMissing }: Condition) => {
    const found = valueAt(body, path) ?? valueAt(facts, path)
    return found === undefined ? passMissing : HOLDS[mode](found, value) !== invert
  }
  return all ? list.every(holds) : list.some(holds)
}
