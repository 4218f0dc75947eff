import type { JsonObject } from '../domain/json-value.ts'
import { editTopLevel, type Member, topLevel } from '../wire/json-edit.ts'
import { areMet } from './condition.ts'
import { type Edit, MAX_ADDED, OverrideError } from './edit.ts'
import { ExpressionLimitError } from './expression.ts'
import { type OverrideOperation, readOperation, refusalOf } from './operation.ts'
import { fault, type OverrideFault, type OverrideReading } from './reading.ts'

/** The changes that a channel makes to every request it sends: `param_override`, parsed once. */
export type Override = {
  /** Set in the body as they are. */
  readonly members: JsonObject
  /** Applied afterwards, in order. */
  readonly operations: readonly OverrideOperation[]
}

const MAX_OPERATIONS = 100

/** Reads the plain form (an object that is merged into the body), the rich form (`operations`), or both in one. */
export function readOverride(source: JsonObject): OverrideReading<Override> {
  const { reading, disabled } = readStoredOverride(source)
  const [first] = disabled
  return first === undefined ? reading : { fault: first }
}

/** An override from the store, and the faults of its disabled operations. */
type StoredOverride = {
  readonly reading: OverrideReading<Override>
  readonly disabled: readonly OverrideFault[]
}

/**
 * Reads an override that an earlier version may have accepted. An operation whose regular expression RE2 does not accept
 * is disabled; the rest of the override stays in force.
 */
export function readStoredOverride(source: JsonObject): StoredOverride {
  const disabled: OverrideFault[] = []
  return { reading: readAll(source, disabled), disabled }
}

function readAll(source: JsonObject, disabled: OverrideFault[]): OverrideReading<Override> {
  const { operations: listed, ...members } = source
  // A body may have a member of this name too: only a list of operations is the rich form.
  const isRich = Array.isArray(listed)
  if (!isRich && listed !== undefined) Object.assign(members, { operations: listed })
  for (const name of Object.keys(members)) {
    const refusal = refusalOf(name)
    if (refusal !== undefined) return fault(`.${name}`, refusal)
  }
  if (!isRich) return { value: { members, operations: [] } }
  if (listed.length > MAX_OPERATIONS)
    return fault('.operations', `must have at most ${MAX_OPERATIONS} operations`)
  const operations: OverrideOperation[] = []
  for (const [index, each] of listed.entries()) {
    const operation = readOperation(each, `.operations.${index}`)
    if ('value' in operation) operations.push(operation.value)
    else if (operation.fault.isExpression) disabled.push(operation.fault)
    else return operation
  }
  return { value: { members, operations } }
}

type Outgoing = Pick<Edit, 'clientHeader' | 'fill'> & {
  readonly bytes: Buffer
  readonly headers: Readonly<Record<string, string>>
  /** Facts beside the body that conditions can refer to. */
  readonly facts: JsonObject
}

/**
 * Applies the operations to a body that is otherwise ready to be sent. Members that no operation reads are not parsed,
 * and unchanged ones keep their bytes. Throws an OverrideError, or the ReturnedError of an operation.
 */
export function applyOperations(
  operations: readonly OverrideOperation[],
  { bytes, headers, facts, clientHeader, fill }: Outgoing,
): { bytes: Buffer; headers: Record<string, string> } {
  const members = topLevel(bytes)
  let remaining = MAX_ADDED
  const edit: Edit = {
    body: parseSome(bytes, members, rootsOf(operations)),
    touched: new Set(),
    headers: { ...headers },
    clientHeader,
    fill,
    spend(characters) {
      remaining -= characters
      if (remaining < 0) throw new OverrideError('the override adds more than 16 MiB to the request')
    },
  }
  try {
    for (const { conditions, run } of operations) if (areMet(conditions, edit.body, facts)) run(edit)
  } catch (error) {
    throw error instanceof ExpressionLimitError ? new OverrideError(error.message) : error
  }
  if (edit.touched.size === 0) return { bytes, headers: edit.headers }
  const edits = Object.fromEntries([...edit.touched].map(name => [name, edit.body[name]]))
  return { bytes: editTopLevel(bytes, edits, members), headers: edit.headers }
}

/** Undefined: one of the operations reads all members. */
function rootsOf(operations: readonly OverrideOperation[]): ReadonlySet<string> | undefined {
  const roots = new Set<string>()
  for (const operation of operations) {
    if (operation.roots === undefined) return undefined
    for (const root of operation.roots) roots.add(root)
  }
  return roots
}

function parseSome(bytes: Buffer, members: readonly Member[], roots: ReadonlySet<string> | undefined) {
  // Without a prototype, so that a member may have any name.
  const body: Record<string, unknown> = Object.create(null)
  for (const { key, valueStart, end } of members)
    if (roots === undefined || roots.has(key)) body[key] = JSON.parse(bytes.toString('utf8', valueStart, end))
  return body
}

export const isEmpty = ({ members, operations }: Override) =>
  operations.length === 0 && Object.keys(members).length === 0

/** Replaces an override that cannot be parsed: every request fails with the reason, and none is sent without the override. */
export function brokenOverride(message: string): Override {
  const run = () => {
    throw new OverrideError(message)
  }
  return { members: {}, operations: [{ roots: [], conditions: { all: false, list: [] }, run }] }
}
