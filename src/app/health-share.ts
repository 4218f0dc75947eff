import { randomUUID } from 'node:crypto'
import type { HealthEvent } from '../domain/channel-condition.ts'
import { systemTimers, type Timers } from '../host/timers.ts'

const FLUSH_AFTER_MS = 50
/** A notification has at most 8,000 bytes, with its signature and the name of the call. */
const MAX_BATCH_BYTES = 6_000
const MAX_REASON = 300
/** Events that did not reach all nodes are sent again, first after this long, then after twice the time, up to the maximum. */
const RETRY_AFTER_MS = 200
const MAX_RETRY_AFTER_MS = 5_000
/** Afterwards they are not sent again. A node that starts asks the others for what they know. */
const MAX_AGE_MS = 300_000
/** The ids of events of others are forgotten when they are certainly not sent again. */
const FORGET_AFTER_MS = 2 * MAX_AGE_MS
/** More are dropped: a provider that fails with all channels at once is noticed by every node. */
const MAX_WAITING = 500

type HealthShareDeps = {
  /** Sends the events to all other nodes. Resolves to whether all of them have received them. */
  send(events: readonly HealthEvent[]): Promise<boolean>
  onFailure(error: Error): void
  monotonicMs?(): number
  readonly timers?: Pick<Timers, 'after'>
}

type WaitingEvent = { readonly event: HealthEvent; readonly serial: number; readonly atMs: number }

const nameOf = ({ channelId, keyId }: HealthEvent) => `${channelId}/${keyId ?? ''}`

/** Events in batches that fit into a notification. Reasons are texts of providers, in any language. */
function* batchesOf(events: readonly WaitingEvent[]): Generator<readonly WaitingEvent[]> {
  let batch: WaitingEvent[] = []
  let bytes = 0
  for (const each of events) {
    const size = Buffer.byteLength(JSON.stringify(eventAfter(0, each.event))) + 1
    if (bytes + size > MAX_BATCH_BYTES && batch.length > 0) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(each)
    bytes += size
  }
  if (batch.length > 0) yield batch
}

const shortReason = (reason: string) =>
  reason.length > MAX_REASON ? `${reason.slice(0, MAX_REASON)}…` : reason

/** The event as it is to be sent after `ageMs`: a cooldown lasts only for the rest of its time. */
function eventAfter(ageMs: number, event: HealthEvent): HealthEvent {
  const { cooldown } = event
  if (!cooldown) return event
  const { forMs, reason, ...rest } = cooldown
  return { ...event, cooldown: { ...rest, forMs: forMs - ageMs, reason: shortReason(reason) } }
}

/** Collects changes of the health of channels for a moment, and sends the latest of each channel and key to all other nodes. */
export function createHealthShare({
  send,
  onFailure,
  monotonicMs = () => performance.now(),
  timers = systemTimers,
}: HealthShareDeps) {
  let waiting = new Map<string, WaitingEvent>()
  let serial = 0
  let isClosed = false
  /** Of this process: another one numbers its events anew. */
  const origin = randomUUID().slice(0, 8)
  /** The last event of each channel and key: an older one is not sent again. */
  const latest = new Map<string, { readonly serial: number; readonly isCooldown: boolean }>()
  /** The ids of events of others, and when they arrived. */
  const arrivals = new Map<string, number>()
  /** Cancels the timer of the next flush. */
  let cancelFlush: (() => void) | undefined

  function isNeeded({ event, serial: own, atMs }: WaitingEvent): boolean {
    const ageMs = monotonicMs() - atMs
    return (
      latest.get(nameOf(event))?.serial === own &&
      ageMs < Math.min(event.cooldown?.forMs ?? MAX_AGE_MS, MAX_AGE_MS)
    )
  }

  async function isReceived(events: readonly WaitingEvent[]): Promise<boolean> {
    try {
      return await send(events.map(({ event, atMs }) => eventAfter(monotonicMs() - atMs, event)))
    } catch (error) {
      onFailure(error as Error)
      return false
    }
  }

  async function sendOrRetry(events: readonly WaitingEvent[], retryAfterMs = RETRY_AFTER_MS): Promise<void> {
    if (isClosed || events.length === 0 || (await isReceived(events))) return
    const nextAfterMs = Math.min(retryAfterMs * 2, MAX_RETRY_AFTER_MS)
    timers.after(retryAfterMs, () => void sendOrRetry(events.filter(isNeeded), nextAfterMs))
  }

  function flush(): void {
    cancelFlush = undefined
    const events = [...waiting.values()]
    waiting = new Map()
    for (const batch of batchesOf(events)) void sendOrRetry(batch)
  }

  function isUnseen({ id }: HealthEvent): boolean {
    if (id === undefined) return true
    if (arrivals.has(id)) return false
    arrivals.set(id, monotonicMs())
    return true
  }

  return {
    /**
     * The events of another node that did not arrive before. A node repeats them until the last node has received them, and a
     * cooldown may have ended meanwhile.
     */
    unseen(events: readonly HealthEvent[]): readonly HealthEvent[] {
      for (const [id, atMs] of arrivals) {
        if (monotonicMs() - atMs < FORGET_AFTER_MS) break
        arrivals.delete(id)
      }
      const fresh = events.filter(isUnseen)
      for (const event of fresh) {
        const name = nameOf(event)
        // What this node has sent is over.
        if (latest.get(name)?.isCooldown === (event.cooldown === undefined)) latest.delete(name)
      }
      return fresh
    },
    share(event: HealthEvent): void {
      if (waiting.size >= MAX_WAITING) return
      const name = nameOf(event)
      latest.set(name, { serial: ++serial, isCooldown: event.cooldown !== undefined })
      // Deleted first, so that events are sent in the order of their last change.
      waiting.delete(name)
      waiting.set(name, { event: { ...event, id: `${origin}.${serial}` }, serial, atMs: monotonicMs() })
      cancelFlush ??= timers.after(FLUSH_AFTER_MS, flush)
    },
    close(): void {
      isClosed = true
      cancelFlush?.()
    },
  }
}
