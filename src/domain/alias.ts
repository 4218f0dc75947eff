/** States an administrator can set. */
export const ALIAS_STATUS = { enabled: 1, disabled: 2 } as const

/** A request passes through at most this many aliases (docs/reference/routing.md: Aliases). */
export const MAX_CHAIN = 5

/**
 * Why `name` may not point to `target`, given where every other alias points. An alias elsewhere may lead to this one,
 * so the chain is measured from its furthest beginning.
 */
export function refuseAlias(
  targets: ReadonlyMap<string, string>,
  name: string,
  target: string,
): string | undefined {
  if (name === target) return `the alias "${name}" would point to itself`
  const all = new Map(targets).set(name, target)
  const onward = walk(all, name)
  if (onward === undefined) return `"${name}" would come back to itself by way of "${target}"`
  const length = longestTo(all, name) + onward
  if (length > MAX_CHAIN)
    return `this would make a chain of ${length} aliases; a request passes through at most ${MAX_CHAIN}`
  return undefined
}

/** How many aliases a request for `name` passes; undefined when it never ends. */
function walk(targets: ReadonlyMap<string, string>, name: string): number | undefined {
  const seen = new Set<string>()
  let at: string | undefined = name
  while (at !== undefined && targets.has(at)) {
    if (seen.has(at)) return undefined
    seen.add(at)
    at = targets.get(at)
  }
  return seen.size
}

/** How many aliases lie in front of `name` on the longest way to it. */
function longestTo(targets: ReadonlyMap<string, string>, name: string): number {
  const sources = Map.groupBy(targets.keys(), source => targets.get(source))
  let length = 0
  let level = sources.get(name) ?? []
  // The walk from `name` has ended, so nothing that leads to it lies on a loop.
  while (level.length > 0) {
    length += 1
    level = level.flatMap(source => sources.get(source) ?? [])
  }
  return length
}
