/** Whether requests can use a channel or key now. */
export type Readiness = {
  /** `resting`: cooling down. `trial`: the cooldown is over, and one request may try. `trying`: one request is trying. */
  readonly state: 'ready' | 'trial' | 'resting' | 'trying'
  /** When to check again; 0 when it can be used now. */
  readonly againInMs: number
}

/** The readiness of a channel or key, with the failure that started its cooldown; empty if it is ready. */
type Condition = Readiness & { readonly reason: string }

/** A channel that is not ready, or with keys that are not ready. */
export type ChannelCondition = {
  readonly id: number
  readonly channel: Condition
  readonly keys: readonly (Condition & { readonly index: number })[]
}

/**
 * A change of the health of a channel or key that all nodes shall know. Without `cooldown`: the channel or key works again.
 * Without `keyIndex`: the whole channel.
 */
export type HealthEvent = {
  readonly channelId: number
  readonly keyIndex?: number
  /** Names the key if its index differs on another node, which has applied a deletion already. Absent from older versions. */
  readonly keyId?: number
  /** The same for every repetition of the event. Absent from older versions. */
  readonly id?: string
  readonly cooldown?: {
    readonly forMs: number
    readonly reason: string
    /** Consecutive failures and cooldowns. */
    readonly strikes: number
    readonly cooldowns: number
  }
}

/** The statuses with which providers refuse a key. */
export const isKeyRefusal = (status: number | string) => status === 401 || status === 403

/** A key that the provider refuses so many times in a row is disabled, and with its last key the channel. */
export const REFUSALS_TO_DISABLE = 3

const SEVERITY = { ready: 0, trial: 1, trying: 2, resting: 3 } as const

function worse<C extends Condition>(one: C, other: C): C {
  if (one.state !== other.state) return SEVERITY[other.state] > SEVERITY[one.state] ? other : one
  return other.againInMs > one.againInMs ? other : one
}

/** The conditions of all workers: of each channel and key the worst, because a request may reach any worker. */
export function mergeConditions(workers: readonly (readonly ChannelCondition[])[]): ChannelCondition[] {
  const merged = new Map<number, ChannelCondition>()
  for (const condition of workers.flat()) {
    const before = merged.get(condition.id)
    merged.set(condition.id, before ? mergeTwo(before, condition) : condition)
  }
  return [...merged.values()]
}

function mergeTwo(one: ChannelCondition, other: ChannelCondition): ChannelCondition {
  const keys = new Map(one.keys.map(key => [key.index, key]))
  for (const key of other.keys) keys.set(key.index, worse(keys.get(key.index) ?? key, key))
  return {
    id: one.id,
    channel: worse(one.channel, other.channel),
    keys: [...keys.values()].sort((a, b) => a.index - b.index),
  }
}
