/** A location in a body: member names and list indexes, where -1 is the last. */
export type FieldPath = readonly string[]

const MAX_STEPS = 32
const PLACE = /^-?\d{1,9}$/

/** Parses `messages.-1.content`; a dot inside a name is written `\.`. Undefined: not a path. */
export function readPath(text: unknown): FieldPath | undefined {
  if (typeof text !== 'string' || text === '') return undefined
  const steps = (text.match(/(?:\\.|[^.\\])+|\.(?=\.)|^\.|\.$/gs) ?? []).map(step =>
    step.replace(/\\(.)/gs, '$1'),
  )
  // `__proto__` would address the prototype of an object.
  const isGood = steps.length <= MAX_STEPS && steps.every(step => step !== '.' && step !== '__proto__')
  return isGood && steps.length > 0 ? steps : undefined
}

type Container = Record<string, unknown> | unknown[]

const isContainer = (value: unknown): value is Container => typeof value === 'object' && value !== null

/** The list index of a step; undefined: not an index of this list. */
function placeIn(list: readonly unknown[], step: string): number | undefined {
  if (!PLACE.test(step)) return undefined
  const place = Number(step) < 0 ? list.length + Number(step) : Number(step)
  return place >= 0 ? place : undefined
}

function child(container: Container, step: string): unknown {
  if (!Array.isArray(container)) return Object.hasOwn(container, step) ? container[step] : undefined
  const place = placeIn(container, step)
  return place === undefined ? undefined : container[place]
}

export function valueAt(root: unknown, path: FieldPath): unknown {
  let value = root
  for (const step of path) {
    if (!isContainer(value)) return undefined
    value = child(value, step)
  }
  return value
}

/** Sets the value at a path and creates missing objects. Does nothing if a string or number is in the way. */
export function putAt(root: Container, path: FieldPath, value: unknown): void {
  let container: Container = root
  for (const step of path.slice(0, -1)) {
    const next = child(container, step)
    if (isContainer(next)) container = next
    else if (next === undefined || next === null) {
      const created = {}
      if (!put(container, step, created)) return
      container = created
    } else return
  }
  put(container, path.at(-1) ?? '', value)
}

/** A list grows by one entry at a time: holes would be values that the override does not set. */
function put(container: Container, step: string, value: unknown): boolean {
  if (!Array.isArray(container)) {
    container[step] = value
    return true
  }
  const place = placeIn(container, step)
  if (place === undefined || place > container.length) return false
  container[place] = value
  return true
}

export function removeAt(root: Container, path: FieldPath): void {
  const container = valueAt(root, path.slice(0, -1))
  const step = path.at(-1) ?? ''
  if (!isContainer(container)) return
  if (!Array.isArray(container)) {
    delete container[step]
    return
  }
  const place = placeIn(container, step)
  if (place !== undefined && place < container.length) container.splice(place, 1)
}
