import type { LimitName, RateLimits } from './meter.ts'
import {
  type Admission,
  isLimited,
  type OwnRates,
  type RateLimiter,
  type Remaining,
  type Subject,
  type SubjectKind,
  tighter,
  unlimited,
} from './rates.ts'
import {
  type Amounts,
  amounts,
  grow,
  type MachineShare,
  NAMES,
  NOTHING,
  type SubjectShares,
  shrink,
} from './shares.ts'

/** Messages between the machines about the shares of a subject. */
export type ShareNotice =
  /** The machine `from` needs what the others do not use. */
  { readonly recall: string; readonly from: string } | { readonly returned: string; readonly by: string }

export type FleetRatesDeps = {
  /** The meters of this machine. */
  readonly own: OwnRates
  /** A random id of this start of the gateway. */
  readonly machine: string
  readonly store: {
    read(subject: string): Promise<SubjectShares>
    /** False if the version is not the current one. */
    replace(subject: string, version: number, shares: readonly MachineShare[]): Promise<boolean>
  }
  send(notice: ShareNotice): Promise<void>
  nowMs(): number
  wait(ms: number, signal?: AbortSignal): Promise<void>
  onFailure(error: Error): void
}

/** The share of this machine in the limits of a subject. */
type Holding = {
  readonly name: string
  readonly subject: Subject
  /** The share is valid for these limits only; undefined before the first one. */
  limits: RateLimits | undefined
  /** Never more than the store has for this machine, and never less than what is used. */
  share: Amounts
  /** What no machine had when the row was last read. */
  free: Amounts
  /** What the waiting requests need. */
  waiting: { requests: number; tokens: number }
  growing: Promise<void> | undefined
  /** The last change of the row by this machine: changes are serialized. */
  lastChange: Promise<unknown>
  /** Nothing was free a moment ago, so requests are refused without another look. */
  pausedUntilMs: number
  lastUsedMs: number
}

const MAX_TRIES = 20
const MAX_ROUNDS = 20
const PAUSE_MS = 100
const FAILURE_PAUSE_MS = 1_000
const STORE_TIMEOUT_MS = 1_000
const RECALL_TIMEOUT_MS = 500
const IDLE_MS = 60_000
const RETURNS_AT_ONCE = 20
/** For a client of a machine that cannot know when another machine has room again. */
const RETRY_AFTER_S = { rpm: 5, tpm: 5, concurrency: 1 } as const

const nameOf = ({ kind, id }: Pick<Subject, 'kind' | 'id'>) => `${kind}:${id}`
const isSame = (a: RateLimits | undefined, b: RateLimits) =>
  a !== undefined && NAMES.every(name => a[name] === b[name])

/** Rate limits of all machines together: each machine admits requests within its shares (docs/adr/0024-shares-of-rate-limits.md). */
export function createFleetRates(deps: FleetRatesDeps) {
  const { own, machine, store, nowMs } = deps
  const holdings = new Map<string, Holding>()
  /** The machines whose answers to a recall are missing, and the function that ends the wait. */
  const recalls = new Map<string, { readonly missing: Set<string>; end(): void }>()

  function holdingOf(subject: Subject): Holding {
    const name = nameOf(subject)
    const existing = holdings.get(name)
    if (existing) return existing
    const holding: Holding = {
      name,
      subject,
      limits: undefined,
      share: NOTHING,
      free: NOTHING,
      waiting: { requests: 0, tokens: 0 },
      growing: undefined,
      lastChange: Promise.resolve(),
      pausedUntilMs: 0,
      lastUsedMs: nowMs(),
    }
    holdings.set(name, holding)
    return holding
  }

  /** The limit whose share is used up; undefined if the share admits another request. */
  function lackOf({ subject, limits, share }: Holding): LimitName | undefined {
    const used = own.used(subject)
    return NAMES.find(name => limits?.[name] != null && used[name] >= share[name])
  }

  const canAdmit = (subject: Subject): boolean => {
    const holding = holdings.get(nameOf(subject))
    return holding !== undefined && isSame(holding.limits, subject.limits) && lackOf(holding) === undefined
  }

  /** Serialized for each subject, and bounded in time for the caller: a late write changes nothing that matters. */
  function enqueue(holding: Holding, change: () => Promise<void>): Promise<void> {
    const running = holding.lastChange.then(change)
    holding.lastChange = running.catch(() => {})
    return running
  }

  /** Compare and set. `next` reduces the share in memory before it returns, if it reduces the share at all. */
  async function write(
    name: string,
    next: (row: SubjectShares) => { readonly shares: readonly MachineShare[]; onWritten?(): void },
  ): Promise<void> {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const row = await store.read(name)
      const { shares, onWritten } = next(row)
      const isUnchanged = JSON.stringify(shares) === JSON.stringify(row.shares)
      if (isUnchanged || (await store.replace(name, row.version, shares))) return onWritten?.()
    }
    throw new Error(`the shares of ${name} changed ${MAX_TRIES} times in a row`)
  }

  /** Takes what the waiting requests need. Returns the machines that could return something. */
  async function takeMore(holding: Holding, limits: RateLimits): Promise<readonly MachineShare[]> {
    let holders: readonly MachineShare[] = []
    await enqueue(holding, () =>
      write(holding.name, row => {
        const { requests, tokens } = holding.waiting
        const result = grow(row, {
          own: machine,
          limits,
          used: own.used(holding.subject),
          least: { rpm: requests, tpm: tokens, concurrency: requests },
          share: isSame(holding.limits, limits) ? holding.share : NOTHING,
        })
        const { share } = holding
        holding.share = amounts(name => Math.min(share[name], result.share[name]))
        return {
          shares: result.shares,
          onWritten() {
            holders = result.holders
            holding.limits = limits
            holding.share = result.share
            holding.free = result.free
          },
        }
      }),
    )
    return holders
  }

  async function recall(name: string, holders: readonly MachineShare[]): Promise<void> {
    const waiting = new AbortController()
    recalls.set(name, { missing: new Set(holders.map(holder => holder.machine)), end: () => waiting.abort() })
    try {
      await deps.send({ recall: name, from: machine })
      await deps.wait(RECALL_TIMEOUT_MS, waiting.signal)
    } finally {
      recalls.delete(name)
    }
  }

  async function growOrPause(holding: Holding, limits: RateLimits): Promise<void> {
    const holders = await takeMore(holding, limits)
    if (lackOf(holding) === undefined) return
    if (holders.length > 0) {
      await recall(holding.name, holders)
      await takeMore(holding, limits)
      if (lackOf(holding) === undefined) return
    }
    holding.pausedUntilMs = nowMs() + PAUSE_MS
  }

  /** If the store cannot be reached, requests are admitted within the shares only. */
  async function growWithin(holding: Holding, limits: RateLimits): Promise<void> {
    const timeout = new AbortController()
    const late = deps.wait(STORE_TIMEOUT_MS + RECALL_TIMEOUT_MS, timeout.signal).then(() => 'late' as const)
    try {
      const outcome = await Promise.race([growOrPause(holding, limits), late])
      if (outcome === 'late') holding.pausedUntilMs = nowMs() + FAILURE_PAUSE_MS
    } catch (error) {
      holding.pausedUntilMs = nowMs() + FAILURE_PAUSE_MS
      deps.onFailure(error as Error)
    } finally {
      timeout.abort()
    }
  }

  const isPaused = (holding: Holding, limits: RateLimits) =>
    holding.pausedUntilMs > nowMs() && (holding.limits === undefined || isSame(holding.limits, limits))

  /** Resolves when the share has grown or cannot grow. False if that is known already. */
  async function more(subject: Subject, countedInput: number): Promise<boolean> {
    const holding = holdingOf(subject)
    if (isPaused(holding, subject.limits)) return false
    holding.waiting.requests += 1
    holding.waiting.tokens += countedInput
    try {
      holding.growing ??= growWithin(holding, subject.limits).finally(() => {
        holding.growing = undefined
      })
      await holding.growing
    } finally {
      holding.waiting.requests -= 1
      holding.waiting.tokens -= countedInput
    }
    return true
  }

  const withinShare = (subject: Subject): Subject => {
    const { limits } = subject
    const share = holdings.get(nameOf(subject))?.share ?? NOTHING
    return {
      ...subject,
      limits: {
        rpm: limits.rpm === null ? null : share.rpm,
        tpm: limits.tpm === null ? null : share.tpm,
        concurrency: limits.concurrency === null ? null : share.concurrency,
      },
    }
  }

  /** The remaining allowance of the whole limit, as far as this machine knows it. */
  function remaining(subjects: readonly Subject[]): Remaining {
    let result: Remaining = {}
    for (const subject of subjects) {
      const holding = holdings.get(nameOf(subject))
      const { requests, tokens } = own.remaining([withinShare(subject)])
      const { rpm, tpm } = subject.limits
      const free = holding?.free ?? NOTHING
      if (requests && rpm !== null) {
        const leftover = Math.min(rpm, requests.remaining + free.rpm)
        result = {
          ...result,
          requests: tighter(result.requests, { ...requests, limit: rpm, remaining: leftover }),
        }
      }
      if (tokens && tpm !== null) {
        const leftover = Math.min(tpm, tokens.remaining + free.tpm)
        result = { ...result, tokens: tighter(result.tokens, { ...tokens, limit: tpm, remaining: leftover }) }
      }
    }
    return result
  }

  /** Tokens are known at the end only: what exceeds the share is written, so that other machines have less. */
  function reportExcess(subjects: readonly Subject[]): void {
    for (const { limits, ...subject } of subjects) {
      const holding = limits.tpm === null ? undefined : holdings.get(nameOf(subject))
      if (!holding || holding.growing || own.used(holding.subject).tpm <= holding.share.tpm) continue
      takeMore(holding, limits).catch(deps.onFailure)
    }
  }

  /** Undefined if a share does not admit the request. */
  function admitWithinShares(subjects: readonly Subject[], countedInput: number): Admission | undefined {
    if (!subjects.every(canAdmit)) return undefined
    const admission = own.admit(subjects.map(withinShare), countedInput)
    if (!admission.ok) return undefined
    for (const subject of subjects) holdingOf(subject).lastUsedMs = nowMs()
    const { ticket } = admission
    return {
      ok: true,
      ticket: {
        leave: ticket.leave,
        end(realTokens) {
          const release = ticket.end(realTokens)
          reportExcess(subjects)
          return release
        },
        remaining: () => remaining(subjects),
      },
    }
  }

  function refusal(subjects: readonly Subject[]): Admission {
    const subject = subjects.find(each => !canAdmit(each)) ?? (subjects[0] as Subject)
    const holding = holdingOf(subject)
    const limit = lackOf(holding) ?? NAMES.find(name => subject.limits[name] !== null) ?? 'rpm'
    const ownWaitS = own.used(subject)[limit] > 0 ? own.fullForS(withinShare(subject)) : 0
    return {
      ok: false,
      subject,
      limit,
      retryAfterS: ownWaitS > 0 ? ownWaitS : RETRY_AFTER_S[limit],
      certainS: own.certainlyFullForS(subject),
      remaining: remaining(subjects),
    }
  }

  async function admitWithMore(subjects: readonly Subject[], countedInput: number): Promise<Admission> {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const lacking = subjects.filter(subject => !canAdmit(subject))
      const hasTried = await Promise.all(lacking.map(subject => more(subject, countedInput)))
      const admission = admitWithinShares(subjects, countedInput)
      if (admission) return admission
      if (lacking.length > 0 && !hasTried.some(Boolean)) break
    }
    return refusal(subjects)
  }

  /** Reduces the share to what is used, in memory first. */
  async function returnUnused(name: string, isEnding = false): Promise<void> {
    const [kind, id] = name.split(':')
    const subject = { kind: kind as SubjectKind, id: Number(id) }
    const holding = holdings.get(name)
    const change = () =>
      write(name, row => {
        const used = own.used(subject)
        if (holding) holding.share = used
        return { shares: shrink(row, machine, used, isEnding) }
      })
    await (holding ? enqueue(holding, change) : change())
  }

  async function returnForPeer(name: string): Promise<void> {
    await returnUnused(name)
    await deps.send({ returned: name, by: machine })
  }

  async function returnAll(names: readonly string[], isEnding: boolean): Promise<void> {
    for (let start = 0; start < names.length; start += RETURNS_AT_ONCE)
      await Promise.all(names.slice(start, start + RETURNS_AT_ONCE).map(name => returnUnused(name, isEnding)))
  }

  /** Returns shares that nothing has used for a minute. */
  async function sweep(): Promise<void> {
    const idle = [...holdings.values()].filter(
      ({ subject, lastUsedMs, growing, waiting }) =>
        nowMs() - lastUsedMs > IDLE_MS &&
        growing === undefined &&
        waiting.requests === 0 &&
        NAMES.every(name => own.used(subject)[name] === 0),
    )
    await returnAll(
      idle.map(({ name }) => name),
      false,
    )
    for (const holding of idle)
      if (nowMs() - holding.lastUsedMs > IDLE_MS && holding.waiting.requests === 0)
        holdings.delete(holding.name)
  }

  return {
    admit(subjects: readonly Subject[], countedInput: number): Admission | Promise<Admission> {
      const limited = subjects.filter(subject => isLimited(subject.limits))
      if (limited.length === 0) return unlimited
      return admitWithinShares(limited, countedInput) ?? admitWithMore(limited, countedInput)
    },
    /** Only a channel whose share could not grow a moment ago is full. */
    fullForS(subject: Subject): number {
      const holding = isLimited(subject.limits) ? holdings.get(nameOf(subject)) : undefined
      return holding && isPaused(holding, subject.limits) && lackOf(holding) !== undefined ? 1 : 0
    },
    /** A message of another machine, or of this one. */
    receive(notice: ShareNotice): void {
      if ('recall' in notice) {
        if (notice.from !== machine) returnForPeer(notice.recall).catch(deps.onFailure)
        return
      }
      const waiting = recalls.get(notice.returned)
      waiting?.missing.delete(notice.by)
      if (waiting?.missing.size === 0) waiting.end()
    },
    sweep,
    /** What was used in the last minute stays in the store until it expires. */
    close: () => returnAll([...holdings.keys()], true),
  } satisfies RateLimiter & Record<string, unknown>
}

export type FleetRates = ReturnType<typeof createFleetRates>
