import { HEADER_NAME, HEADER_VALUE, isFraming, mayForward } from '../domain/header.ts'
import { isObject, type JsonObject } from '../domain/json-value.ts'
import { isOnlyPlaceholders, isSecretName } from '../domain/secret-name.ts'
import { areMet, type Conditions, readConditions } from './condition.ts'
import { copyOf, type Edit, ReturnedError } from './edit.ts'
import { readExpression, replaceMatches } from './expression.ts'
import { type FieldPath, putAt, readPath, removeAt, valueAt } from './path.ts'
import { fault, type OverrideReading, readMembers } from './reading.ts'

/** One operation: the members it reads, its conditions, and the change. */
export type OverrideOperation = {
  /** Names of top-level members; undefined: all of them. */
  readonly roots: readonly string[] | undefined
  readonly conditions: Conditions
  run(edit: Edit): void
}

type Action = Pick<OverrideOperation, 'roots' | 'run'>
type Read = (given: JsonObject, at: string) => OverrideReading<Action>

const MEMBERS = [
  'mode',
  'path',
  'value',
  'from',
  'to',
  'keep_origin',
  'conditions',
  'logic',
  'description',
] as const

/** Members that decide about routing, billing and the decoding of the answer: an override cannot change them. */
const PROTECTED: Readonly<Record<string, string>> = {
  model: 'cannot be overridden: use model_mapping to change the model',
  stream: 'cannot be overridden: the client decides whether the response is streamed',
  stream_options: 'can only be deleted as a whole, for a provider that does not support it',
}

/** Why a member of the body must not be written. */
export const refusalOf = (root: string | undefined) =>
  root !== undefined && Object.hasOwn(PROTECTED, root) ? PROTECTED[root] : undefined

const PATH_WANTED = 'must be a path such as messages.0.content'

function writable(text: unknown, at: string): OverrideReading<FieldPath> {
  const path = readPath(text)
  if (path === undefined) return fault(at, PATH_WANTED)
  const refusal = refusalOf(path[0])
  return refusal === undefined ? { value: path } : fault(at, refusal)
}

function deletable(text: unknown, at: string): OverrideReading<FieldPath> {
  return text === 'stream_options' ? { value: ['stream_options'] } : writable(text, at)
}

const rootsOf = (...paths: readonly FieldPath[]) => paths.map(([root = '']) => root)

function write(edit: Edit, path: FieldPath, value: unknown): void {
  putAt(edit.body, path, value)
  edit.touched.add(path[0] ?? '')
}

function remove(edit: Edit, path: FieldPath): void {
  if (valueAt(edit.body, path) === undefined) return
  removeAt(edit.body, path)
  edit.touched.add(path[0] ?? '')
}

const set: Read = ({ path, value, keep_origin }, at) => {
  const read = writable(path, `${at}.path`)
  if ('fault' in read) return read
  if (value === undefined) return fault(`${at}.value`, 'is required')
  return {
    value: {
      roots: rootsOf(read.value),
      run(edit) {
        if (keep_origin === true && valueAt(edit.body, read.value) !== undefined) return
        write(edit, read.value, copyOf(value, edit.spend))
      },
    },
  }
}

const del: Read = ({ path }, at) => {
  const read = deletable(path, `${at}.path`)
  if ('fault' in read) return read
  return { value: { roots: rootsOf(read.value), run: edit => remove(edit, read.value) } }
}

const copyOrMove =
  (isMove: boolean): Read =>
  ({ from, to, keep_origin }, at) => {
    const source = isMove ? writable(from, `${at}.from`) : readSource(from, `${at}.from`)
    if ('fault' in source) return source
    const target = writable(to, `${at}.to`)
    if ('fault' in target) return target
    const run = (edit: Edit) => {
      const value = valueAt(edit.body, source.value)
      if (value === undefined) return
      if (keep_origin === true && valueAt(edit.body, target.value) !== undefined) return
      const copy = copyOf(value, edit.spend)
      if (isMove) remove(edit, source.value)
      write(edit, target.value, copy)
    }
    return { value: { roots: rootsOf(source.value, target.value), run } }
  }

function readSource(text: unknown, at: string): OverrideReading<FieldPath> {
  const path = readPath(text)
  return path === undefined ? fault(at, PATH_WANTED) : { value: path }
}

/** Adds to a text, a list or an object, at its start or its end. */
const add =
  (isFirst: boolean): Read =>
  ({ path, value, keep_origin }, at) => {
    const read = writable(path, `${at}.path`)
    if ('fault' in read) return read
    if (value === undefined) return fault(`${at}.value`, 'is required')
    const join = (current: unknown, addition: unknown): unknown => {
      if (typeof current === 'string' && typeof addition === 'string')
        return isFirst ? addition + current : current + addition
      if (Array.isArray(current)) {
        const more = Array.isArray(addition) ? addition : [addition]
        return isFirst ? [...more, ...current] : [...current, ...more]
      }
      if (isObject(current) && isObject(addition))
        return keep_origin === true ? { ...addition, ...current } : { ...current, ...addition }
      return undefined
    }
    const run = (edit: Edit) => {
      const current = valueAt(edit.body, read.value)
      if (typeof current === 'string') edit.spend(current.length)
      const addition = copyOf(value, edit.spend)
      const next = current === undefined ? addition : join(current, addition)
      if (next !== undefined) write(edit, read.value, next)
    }
    return { value: { roots: rootsOf(read.value), run } }
  }

/** Changes a string. */
const text =
  (change: (found: string, value: string) => string, needsValue: boolean): Read =>
  ({ path, value = '' }, at) => {
    const read = writable(path, `${at}.path`)
    if ('fault' in read) return read
    if (typeof value !== 'string' || (needsValue && value === ''))
      return fault(`${at}.value`, 'must be a non-empty string')
    return { value: { roots: rootsOf(read.value), run: edit => changeText(edit, read.value, change, value) } }
  }

function changeText(
  edit: Edit,
  path: FieldPath,
  change: (found: string, value: string) => string,
  value: string,
): void {
  const current = valueAt(edit.body, path)
  if (typeof current !== 'string') return
  const next = change(current, value)
  edit.spend(Math.max(0, next.length - current.length))
  if (next !== current) write(edit, path, next)
}

const replace: Read = ({ path, from, to = '' }, at) => {
  const read = writable(path, `${at}.path`)
  if ('fault' in read) return read
  if (typeof from !== 'string' || from === '') return fault(`${at}.from`, 'must be a non-empty string')
  if (typeof to !== 'string') return fault(`${at}.to`, 'must be a string')
  const run = (edit: Edit) => {
    const current = valueAt(edit.body, read.value)
    if (typeof current === 'string') edit.spend((current.length / from.length) * to.length)
    changeText(edit, read.value, words => words.replaceAll(from, () => to), '')
  }
  return { value: { roots: rootsOf(read.value), run } }
}

const regexReplace: Read = ({ path, from, to = '' }, at) => {
  const read = writable(path, `${at}.path`)
  if ('fault' in read) return read
  const expression = readExpression(from)
  if ('fault' in expression)
    return { fault: { path: `${at}.from`, message: expression.fault, isExpression: true } }
  // These patterns insert the text before or after the match, once per match.
  if (typeof to !== 'string' || /\$[`']/.test(to))
    return fault(`${at}.to`, "must be a string without $` and $'")
  const run = (edit: Edit) => {
    const current = valueAt(edit.body, read.value)
    if (typeof current === 'string') edit.spend(current.length)
    changeText(edit, read.value, words => replaceMatches(words, expression.expression, to), '')
  }
  return { value: { roots: rootsOf(read.value), run } }
}

const PRUNE_MEMBERS = ['type', 'where', 'conditions', 'logic', 'recursive'] as const

/** Removes objects from lists: by `type`, by equal members, or by conditions on them. */
const pruneObjects: Read = ({ path = '', value }, at) => {
  const read: OverrideReading<FieldPath> = path === '' ? { value: [] } : writable(path, `${at}.path`)
  if ('fault' in read) return read
  const members = readMembers(
    typeof value === 'string' ? { type: value } : value,
    PRUNE_MEMBERS,
    `${at}.value`,
  )
  if ('fault' in members) return members
  const { type, where = {}, recursive = true } = members.value
  if (!isObject(where)) return fault(`${at}.value.where`, 'must be an object')
  const conditions = readConditions({ logic: 'AND', ...members.value }, `${at}.value`)
  if ('fault' in conditions) return conditions
  if (type === undefined && Object.keys(where).length === 0 && conditions.value.list.length === 0)
    return fault(`${at}.value`, 'must select objects by type, where or conditions')
  const requirements = Object.entries(type === undefined ? where : { ...where, type })
  const isPruned = (each: unknown) =>
    isObject(each) &&
    requirements.every(([name, is]) => JSON.stringify(each[name]) === JSON.stringify(is)) &&
    areMet(conditions.value, each)
  const prune = (node: unknown, depth: number): void => {
    if (depth > 1 && recursive !== true) return
    if (Array.isArray(node)) {
      const remaining = node.filter(each => !isPruned(each))
      if (remaining.length < node.length) {
        node.length = 0
        for (const each of remaining) node.push(each)
      }
    }
    if (typeof node !== 'object' || node === null) return
    for (const each of Object.values(node)) prune(each, depth + 1)
  }
  const [root] = read.value
  const run = (edit: Edit) => {
    if (root !== undefined) {
      prune(valueAt(edit.body, read.value), 1)
      if (root in edit.body) edit.touched.add(root)
      return
    }
    for (const [name, value] of Object.entries(edit.body)) {
      if (refusalOf(name) !== undefined || typeof value !== 'object' || value === null) continue
      prune(value, 1)
      edit.touched.add(name)
    }
  }
  return { value: { roots: root === undefined ? undefined : [root], run } }
}

const ERROR_MEMBERS = ['message', 'status_code', 'status', 'type', 'code', 'skip_retry'] as const

const returnError: Read = ({ value }, at) => {
  const members = readMembers(
    typeof value === 'string' ? { message: value } : value,
    ERROR_MEMBERS,
    `${at}.value`,
  )
  if ('fault' in members) return members
  const { message, status, status_code = status ?? 400, skip_retry = true } = members.value
  const { type = 'invalid_request_error', code = 'invalid_request' } = members.value
  if (typeof message !== 'string' || message.trim() === '')
    return fault(`${at}.value.message`, 'must be a non-empty string')
  if (!Number.isInteger(status_code) || (status_code as number) < 400 || (status_code as number) > 599)
    return fault(`${at}.value.status_code`, 'must be an integer from 400 to 599')
  if (typeof type !== 'string') return fault(`${at}.value.type`, 'must be a string')
  if (typeof code !== 'string') return fault(`${at}.value.code`, 'must be a string')
  const response = { status: status_code as number, message, type, code, isFinal: skip_retry !== false }
  const run = () => {
    throw new ReturnedError(response)
  }
  return { value: { roots: [], run } }
}

function headerName(name: unknown, at: string): OverrideReading<string> {
  if (typeof name !== 'string' || !HEADER_NAME.test(name)) return fault(at, 'must be a header name')
  if (isFraming(name)) return fault(at, 'belongs to the connection and cannot be set')
  return { value: name.toLowerCase() }
}

/** The name of a client header that may be forwarded. */
function passableName(name: unknown, at: string): OverrideReading<string> {
  const read = headerName(name, at)
  if ('fault' in read || mayForward(read.value)) return read
  return fault(at, 'is a credential of the client, which is never passed on')
}

const setHeader: Read = ({ path, value, keep_origin }, at) => {
  const name = headerName(path, `${at}.path`)
  if ('fault' in name) return name
  if (typeof value !== 'string' || !HEADER_VALUE.test(value))
    return fault(
      `${at}.value`,
      'must be a string of plain ASCII without line breaks, at most 8192 characters',
    )
  if (isSecretName(name.value) && !isOnlyPlaceholders(value))
    return fault(
      `${at}.value`,
      'looks like a credential: use header_override, which keeps such values masked',
    )
  for (const [, clientName] of value.matchAll(/\{client_header:([^{}]*)\}/g)) {
    const passable = passableName(clientName, `${at}.value`)
    if ('fault' in passable) return passable
  }
  const run = (edit: Edit) => {
    if (keep_origin === true && edit.headers[name.value] !== undefined) return
    const filled = edit.fill(value)
    if (filled !== undefined) edit.headers[name.value] = filled
  }
  return { value: { roots: [], run } }
}

const deleteHeader: Read = ({ path }, at) => {
  const name = headerName(path, `${at}.path`)
  if ('fault' in name) return name
  const run = (edit: Edit) => {
    delete edit.headers[name.value]
  }
  return { value: { roots: [], run } }
}

const carryHeader =
  (isMove: boolean): Read =>
  ({ from, to, keep_origin }, at) => {
    const source = passableName(from, `${at}.from`)
    if ('fault' in source) return source
    const target = headerName(to, `${at}.to`)
    if ('fault' in target) return target
    const run = (edit: Edit) => {
      const value = edit.headers[source.value] ?? edit.clientHeader(source.value)
      if (value === undefined) return
      if (keep_origin === true && edit.headers[target.value] !== undefined) return
      if (isMove) delete edit.headers[source.value]
      edit.headers[target.value] = value
    }
    return { value: { roots: [], run } }
  }

const MAX_PASSED = 50

const passHeaders: Read = ({ value }, at) => {
  const names = typeof value === 'string' ? value.split(',').map(name => name.trim()) : value
  if (!Array.isArray(names) || names.length === 0 || names.length > MAX_PASSED)
    return fault(`${at}.value`, `must be a list of 1 to ${MAX_PASSED} header names`)
  const headerNames: string[] = []
  for (const each of names) {
    const name = passableName(each, `${at}.value`)
    if ('fault' in name) return name
    headerNames.push(name.value)
  }
  const run = (edit: Edit) => {
    for (const name of headerNames) {
      const clientValue = edit.clientHeader(name)
      if (clientValue !== undefined) edit.headers[name] = clientValue
    }
  }
  return { value: { roots: [], run } }
}

type Place = { readonly path: FieldPath } | { readonly header: string }

function readPlace(place: unknown, at: string): OverrideReading<Place> {
  const [, kind, name] = typeof place === 'string' ? (/^(json|header):(.+)$/s.exec(place) ?? []) : []
  if (kind === 'json') {
    const path = writable(name, at)
    return 'fault' in path ? path : { value: { path: path.value } }
  }
  if (kind !== 'header') return fault(at, 'must be json:PATH or header:NAME')
  const header = passableName(name, at)
  return 'fault' in header ? header : { value: { header: header.value } }
}

/** Keeps two locations equal: an empty one gets the value of the other. */
const syncFields: Read = ({ from, to }, at) => {
  const first = readPlace(from, `${at}.from`)
  if ('fault' in first) return first
  const second = readPlace(to, `${at}.to`)
  if ('fault' in second) return second
  const places = [first.value, second.value]
  const currentText = (edit: Edit, place: Place): string | undefined => {
    const current =
      'path' in place
        ? valueAt(edit.body, place.path)
        : (edit.headers[place.header] ?? edit.clientHeader(place.header))
    return typeof current === 'string' && current !== '' ? current : undefined
  }
  const fill = (edit: Edit, place: Place, value: string) => {
    if ('path' in place) write(edit, place.path, value)
    else if (HEADER_VALUE.test(value)) edit.headers[place.header] = value
  }
  const run = (edit: Edit) => {
    const [one, other] = places.map(place => currentText(edit, place))
    if (one !== undefined && other === undefined) fill(edit, second.value, one)
    if (one === undefined && other !== undefined) fill(edit, first.value, other)
  }
  return { value: { roots: rootsOf(...places.flatMap(place => ('path' in place ? [place.path] : []))), run } }
}

const READS: Readonly<Record<string, Read>> = {
  set,
  delete: del,
  move: copyOrMove(true),
  copy: copyOrMove(false),
  prepend: add(true),
  append: add(false),
  trim_prefix: text(
    (current, value) => (current.startsWith(value) ? current.slice(value.length) : current),
    true,
  ),
  trim_suffix: text(
    (current, value) => (current.endsWith(value) ? current.slice(0, -value.length) : current),
    true,
  ),
  ensure_prefix: text((current, value) => (current.startsWith(value) ? current : value + current), true),
  ensure_suffix: text((current, value) => (current.endsWith(value) ? current : current + value), true),
  trim_space: text(current => current.trim(), false),
  to_lower: text(current => current.toLowerCase(), false),
  to_upper: text(current => current.toUpperCase(), false),
  replace,
  regex_replace: regexReplace,
  prune_objects: pruneObjects,
  return_error: returnError,
  set_header: setHeader,
  delete_header: deleteHeader,
  copy_header: carryHeader(false),
  move_header: carryHeader(true),
  pass_headers: passHeaders,
  sync_fields: syncFields,
}

export const MODES = Object.keys(READS)

export function readOperation(entry: unknown, at: string): OverrideReading<OverrideOperation> {
  const members = readMembers(entry, MEMBERS, at)
  if ('fault' in members) return members
  const { mode, keep_origin = false } = members.value
  const read = typeof mode === 'string' && Object.hasOwn(READS, mode) ? READS[mode] : undefined
  if (read === undefined) return fault(`${at}.mode`, `must be one of ${MODES.join(', ')}`)
  if (typeof keep_origin !== 'boolean') return fault(`${at}.keep_origin`, 'must be true or false')
  const conditions = readConditions(members.value, at)
  if ('fault' in conditions) return conditions
  const action = read(members.value, at)
  if ('fault' in action) return action
  const conditionRoots = rootsOf(...conditions.value.list.map(({ path }) => path))
  const roots = action.value.roots && [...action.value.roots, ...conditionRoots]
  return { value: { roots, conditions: conditions.value, run: action.value.run } }
}
