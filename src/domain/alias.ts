/** States an administrator can set. */
export const ALIAS_STATUS = { enabled: 1, disabled: 2 } as const

/** A request passes through at most this many aliases (docs/reference/routing.md: Aliases). */
export const MAX_CHAIN = 5

/**
 * Why `name` must not point to `target`, given the targets of all other aliases; undefined if it may. Other aliases may
 * point to `name`, so the length of the whole chain counts.
 */
export function refuseAlias(
  targets: ReadonlyMap<string, string>,
  name: string,
  target: string,
): string | undefined {
  if (name === target) return `The alias "${name}" cannot point to itself. Choose another target.`
  const all = new Map(targets).set(name, target)
  const lengthFromName = chainLength(all, name)
  if (lengthFromName === undefined)
    return `The alias "${name}" would form a loop through "${target}". Choose another target.`
  const length = longestTo(all, name) + lengthFromName
  if (length > MAX_CHAIN)
    return `The chain would have ${length} aliases; the maximum is ${MAX_CHAIN}. Choose another target.`
  return undefined
}

/** The number of aliases from `name` on; undefined for a loop. */
export function chainLength(targets: ReadonlyMap<string, string>, name: string): number | undefined {
  const visited = new Set<string>()
  let at: string | undefined = name
  while (at !== undefined && targets.has(at)) {
    if (visited.has(at)) return undefined
    visited.add(at)
    at = targets.get(at)
  }
  return visited.size
}

/** The length of the longest chain of aliases that ends at `name`. */
function longestTo(targets: ReadonlyMap<string, string>, name: string): number {
  const sources = Map.groupBy(targets.keys(), source => targets.get(source))
  let length = 0
  let level = sources.get(name) ?? []
  // `chainLength` ended, so no alias that leads to `name` is part of a loop.
  while (level.length > 0) {
    length += 1
    level = level.flatMap(source => sources.get(source) ?? [])
  }
  return length
}
