/** Members with cumulative weights, so that a draw is one binary search. */
export type Pool<T> = {
  readonly members: readonly T[]
  /** `ends[i]` is the sum of the weights of members 0 to `i`. */
  readonly ends: Float64Array
}

/** Draws of already drawn members before the pool is rebuilt. At least half of the draws hit, so this is rarely reached. */
const MAX_TRIES = 16

/** Every weight must be above zero. */
export function poolOf<T>(members: readonly T[], weightOf: (member: T) => number): Pool<T> {
  const ends = new Float64Array(members.length)
  let sum = 0
  members.forEach((member, index) => {
    sum += weightOf(member)
    ends[index] = sum
  })
  return { members, ends }
}

const weightAt = ({ ends }: Pool<unknown>, index: number) => (ends[index] ?? 0) - (ends[index - 1] ?? 0)

/** The members of a pool that pass, in a new pool. One pass only, because a request waits for it. */
function only<T>(pool: Pool<T>, passes: (member: T, index: number) => boolean): Pool<T> {
  const members: T[] = []
  const ends: number[] = []
  let sum = 0
  pool.members.forEach((member, index) => {
    if (!passes(member, index)) return
    sum += weightAt(pool, index)
    members.push(member)
    ends.push(sum)
  })
  return { members, ends: new Float64Array(ends) }
}

/** The index of the member whose interval contains the point. */
function indexAt(ends: Float64Array, point: number): number {
  let low = 0
  let high = ends.length - 1
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((ends[middle] ?? 0) > point) high = middle
    else low = middle + 1
  }
  return low
}

export type Draw<T> = {
  next(): T | undefined
  /** Removes the members that do not pass from those not drawn yet. */
  removeUnless(passes: (member: T) => boolean): void
}

/** Nothing is drawn from a single member: most pools have only one. */
function drawOnly<T>([member]: readonly T[]): Draw<T> {
  let remaining = member
  return {
    removeUnless(passes) {
      if (remaining !== undefined && !passes(remaining)) remaining = undefined
    },
    next() {
      const drawn = remaining
      remaining = undefined
      return drawn
    },
  }
}

/**
 * A weighted draw without replacement. A member that was drawn before is skipped and the draw repeated, so the first draws
 * of a large pool cost no copy of it. Once half of the weight is drawn, the remaining members become a new pool.
 */
export function createDraw<T>(all: Pool<T>, random: () => number): Draw<T> {
  if (all.members.length === 1) return drawOnly(all.members)
  let pool = all
  let drawnIndexes: Set<number> | undefined
  let drawnWeight = 0

  const total = () => pool.ends.at(-1) ?? 0

  function take(index: number): T | undefined {
    drawnIndexes ??= new Set()
    drawnIndexes.add(index)
    drawnWeight += weightAt(pool, index)
    return pool.members[index]
  }

  function removeUnless(passes: (member: T) => boolean): void {
    pool = only(pool, (member, index) => !drawnIndexes?.has(index) && passes(member))
    drawnIndexes = undefined
    drawnWeight = 0
  }
  const compact = () => removeUnless(() => true)

  return {
    removeUnless,
    next: () => {
      if (pool.members.length === (drawnIndexes?.size ?? 0)) return undefined
      if (drawnWeight * 2 > total()) compact()
      for (let tries = 0; tries < MAX_TRIES; tries += 1) {
        const index = indexAt(pool.ends, random() * total())
        if (!drawnIndexes?.has(index)) return take(index)
      }
      compact()
      return take(indexAt(pool.ends, random() * total()))
    },
  }
}
