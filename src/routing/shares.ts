import type { RateLimits } from './meter.ts'

/** What a machine may use of each limit, or uses. */
export type Amounts = { readonly rpm: number; readonly tpm: number; readonly concurrency: number }

/** The share of a machine in the row of a subject. */
export type MachineShare = Amounts & {
  readonly machine: string
  /** The machine has ended. What it had used expires then, by the clock of the store. */
  readonly untilMs?: number
}

/** The row of a subject, as the store has it. */
export type SubjectShares = {
  readonly version: number
  readonly shares: readonly MachineShare[]
  readonly nowMs: number
  /** When each machine is fenced without another heartbeat. A machine that has left is absent. */
  readonly fencedMs: ReadonlyMap<string, number>
}

export const NAMES = ['rpm', 'tpm', 'concurrency'] as const
export const NOTHING: Amounts = { rpm: 0, tpm: 0, concurrency: 0 }

const WINDOW_MS = 60_000
/** Later than the machine itself, as in domain/node.ts. */
const MARGIN_MS = 5_000
/** A machine takes this part of a limit at a time. */
const PARTS = 20

export const amounts = (of: (name: keyof Amounts) => number): Amounts => ({
  rpm: of('rpm'),
  tpm: of('tpm'),
  concurrency: of('concurrency'),
})

/** The shares of other machines that still count. A machine that has ended gets the time at which its share expires. */
function othersOf(row: SubjectShares, own: string): MachineShare[] {
  return row.shares
    .filter(({ machine }) => machine !== own)
    .map(share => {
      if (share.untilMs !== undefined) return share
      const fencedMs = row.fencedMs.get(share.machine)
      if (fencedMs === undefined) return { ...share, untilMs: row.nowMs + WINDOW_MS }
      const untilMs = fencedMs + MARGIN_MS + WINDOW_MS
      return untilMs <= row.nowMs ? { ...share, untilMs } : share
    })
    .filter(({ untilMs }) => untilMs === undefined || untilMs > row.nowMs)
}

/** What the machine wants to use, beyond what it uses now: a part of the limit, but at least `least`. */
const partOf = (limit: number, least: number) => Math.max(1, least, Math.ceil(limit / PARTS))

type Growth = {
  readonly own: string
  readonly limits: RateLimits
  readonly used: Amounts
  /** The smallest amount beyond the used one that helps. */
  readonly least: Amounts
  /** The share of the machine before. */
  readonly share: Amounts
}

/** The row after a machine has taken what it needs of what is free, and the share that the machine then has. */
export function grow(row: SubjectShares, { own, limits, used, least, share }: Growth) {
  const others = othersOf(row, own)
  const free = amounts(name => {
    const limit = limits[name]
    if (limit === null) return 0
    return limit - others.reduce((sum, other) => sum + other[name], 0)
  })
  const next = amounts(name => {
    const limit = limits[name]
    if (limit === null) return 0
    const target = used[name] < share[name] ? share[name] : used[name] + partOf(limit, least[name])
    // What was used is a fact: the others must see it, even if it is more than was free.
    return Math.max(used[name], Math.min(target, free[name]))
  })
  return {
    shares: [...others, { machine: own, ...next }],
    share: next,
    /** What other machines could still take. */
    free: amounts(name => Math.max(0, free[name] - next[name])),
    /** The machines that could return something. */
    holders: others.filter(
      ({ machine, untilMs, rpm, tpm, concurrency }) =>
        untilMs === undefined && row.fencedMs.has(machine) && rpm + tpm + concurrency > 0,
    ),
  }
}

/** The row after a machine has reduced its share to what it uses. With `isEnding`, that expires after a minute. */
export function shrink(row: SubjectShares, own: string, used: Amounts, isEnding = false): MachineShare[] {
  const others = othersOf(row, own)
  if (used.rpm + used.tpm + used.concurrency === 0) return others
  return [...others, { machine: own, ...used, ...(isEnding && { untilMs: row.nowMs + WINDOW_MS }) }]
}
