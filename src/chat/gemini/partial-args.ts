import { isObject } from '../../domain/json-value.ts'

/** Collects arguments that arrive in pieces, each with the path of its value (`$.items[0].name`). */
export type PartialArgs = { add(pieces: unknown): void; text(): string }

/** No call has so long a list; a greater index is an error of the vendor. */
const MAX_INDEX = 65_535

type Container = Record<string, unknown> | unknown[]

export function createPartialArgs(): PartialArgs {
  const root: Container = emptyObject()
  /** The path of a text that continues in the next piece. */
  let openPath: string | undefined

  function add(piece: unknown): void {
    if (!isObject(piece) || typeof piece.jsonPath !== 'string') return
    const keys = parsePath(piece.jsonPath)
    const value = valueIn(piece)
    if (keys.length === 0 || value === undefined) return
    const goesOn = openPath === piece.jsonPath && typeof value === 'string'
    assign(root, keys, existing => (goesOn && typeof existing === 'string' ? existing + value : value))
    openPath = piece.willContinue === true ? piece.jsonPath : undefined
  }

  return {
    add: pieces => {
      if (Array.isArray(pieces)) for (const piece of pieces) add(piece)
    },
    text: () => JSON.stringify(root),
  }
}

/** Without a prototype, `__proto__` is an ordinary name. */
const emptyObject = (): Record<string, unknown> => Object.create(null) as Record<string, unknown>

function valueIn({
  stringValue,
  numberValue,
  boolValue,
  nullValue,
}: Readonly<Record<string, unknown>>): unknown {
  return stringValue ?? numberValue ?? boolValue ?? (nullValue === undefined ? undefined : null)
}

const SEGMENT = /\.([^.[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/gy

function parsePath(path: string): readonly (string | number)[] {
  const keys: (string | number)[] = []
  const rest = path.startsWith('$') ? path.slice(1) : `.${path}`
  for (const [, name, index, single, double] of rest.matchAll(SEGMENT)) {
    if (index !== undefined) keys.push(Math.min(Number(index), MAX_INDEX))
    else keys.push(name ?? (single ?? double ?? '').replace(/\\(.)/g, '$1'))
  }
  return keys
}

/** Creates the objects and lists along the path. */
function assign(
  root: Container,
  keys: readonly (string | number)[],
  change: (known: unknown) => unknown,
): void {
  let at = root as Record<string | number, unknown>
  for (const [depth, key] of keys.entries()) {
    const next = keys[depth + 1]
    if (next === undefined) {
      at[key] = change(at[key])
      return
    }
    const inner = at[key]
    if (typeof inner !== 'object' || inner === null) at[key] = typeof next === 'number' ? [] : emptyObject()
    at = at[key] as Record<string | number, unknown>
  }
}
