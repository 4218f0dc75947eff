/** Members and their weights, summed up so that a draw is one search. */
export type Pool<T> = {
  readonly members: readonly T[]
  /** `ends[i]` is the weight of the members up to and with `i`. */
  readonly ends: Float64Array
}

/** Draws in vain before the members left are put together anew; one in two hits, so it is next to never needed. */
const MAX_TRIES = 16

/** Every weight is above zero: what is never drawn has no place in a pool. */
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

/** In one pass, because a request may wait for it. */
function only<T>(pool: Pool<T>, isIn: (member: T, index: number) => boolean): Pool<T> {
  const members: T[] = []
  const ends: number[] = []
  let sum = 0
  pool.members.forEach((member, index) => {
    if (!isIn(member, index)) return
    sum += weightAt(pool, index)
    members.push(member)
    ends.push(sum)
  })
  return { members, ends: new Float64Array(ends) }
}

/** The member whose share of the whole holds the point. */
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
  /** Looks at each member that was not drawn yet, and leaves in only those that pass. */
  sift(isIn: (member: T) => boolean): void
}

/**
 * Draws every member once, each time by weight among those left. One that was drawn before is drawn again in vain
 * instead of being cut out, so the first draws of a large pool cost no copy of it; once half the weight is gone, what is
 * left becomes a pool of its own.
 */
export function createDraw<T>(all: Pool<T>, random: () => number): Draw<T> {
  let pool = all
  let taken: Set<number> | undefined
  let takenWeight = 0

  const total = () => pool.ends.at(-1) ?? 0

  function take(index: number): T | undefined {
    taken ??= new Set()
    taken.add(index)
    takenWeight += weightAt(pool, index)
    return pool.members[index]
  }

  function sift(isIn: (member: T) => boolean): void {
    pool = only(pool, (member, index) => !taken?.has(index) && isIn(member))
    taken = undefined
    takenWeight = 0
  }
  const compact = () => sift(() => true)

  return {
    sift,
    next: () => {
      if (pool.members.length === (taken?.size ?? 0)) return undefined
      if (takenWeight * 2 > total()) compact()
      for (let tries = 0; tries < MAX_TRIES; tries += 1) {
        const index = indexAt(pool.ends, random() * total())
        if (!taken?.has(index)) return take(index)
      }
      compact()
      return take(indexAt(pool.ends, random() * total()))
    },
  }
}
