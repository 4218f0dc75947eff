import type { HealthEvent } from '../domain/channel-condition.ts'
import { systemTimers, type Timers } from '../host/timers.ts'

const FLUSH_AFTER_MS = 50
/** A notification has at most 8,000 bytes, with its signature and the name of the call. */
const MAX_BATCH_BYTES = 6_000
const MAX_REASON = 300
/** The store could not be reached: the events are sent again after this long, at most so many times. */
const RETRY_AFTER_MS = 200
const MAX_RETRIES = 20
/** More are dropped: a provider that fails with all channels at once is noticed by every node. */
const MAX_WAITING = 500

type HealthShareDeps = {
  /** Sends the events to all other nodes. */
  send(events: readonly HealthEvent[]): Promise<unknown>
  onFailure(error: Error): void
  readonly timers?: Pick<Timers, 'after'>
}

type WaitingEvent = { readonly event: HealthEvent; readonly serial: number; readonly retries: number }

const nameOf = ({ channelId, keyIndex }: HealthEvent) => `${channelId}/${keyIndex ?? ''}`

/** Events in batches that fit into a notification. Reasons are texts of providers, in any language. */
function* batchesOf(events: readonly WaitingEvent[]): Generator<readonly WaitingEvent[]> {
  let batch: WaitingEvent[] = []
  let bytes = 0
  for (const each of events) {
    const size = Buffer.byteLength(JSON.stringify(each.event)) + 1
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

/** Collects changes of the health of channels for a moment, and sends the latest of each channel and key to all other nodes. */
export function createHealthShare({ send, onFailure, timers = systemTimers }: HealthShareDeps) {
  let waiting = new Map<string, WaitingEvent>()
  let serial = 0
  /** The serial number of the last event of each channel and key: an older one is not sent again. */
  const latest = new Map<string, number>()
  /** Cancels the timer of the next flush. */
  let cancelFlush: (() => void) | undefined

  const shorten = (event: HealthEvent): HealthEvent =>
    event.cooldown && event.cooldown.reason.length > MAX_REASON
      ? {
          ...event,
          cooldown: { ...event.cooldown, reason: `${event.cooldown.reason.slice(0, MAX_REASON)}…` },
        }
      : event

  function retry(events: readonly WaitingEvent[]): void {
    for (const each of events)
      if (each.retries < MAX_RETRIES && latest.get(nameOf(each.event)) === each.serial)
        waiting.set(nameOf(each.event), { ...each, retries: each.retries + 1 })
    if (waiting.size > 0) cancelFlush ??= timers.after(RETRY_AFTER_MS, flush)
  }

  async function sendOrRetry(events: readonly WaitingEvent[]): Promise<void> {
    try {
      await send(events.map(({ event }) => event))
    } catch (error) {
      onFailure(error as Error)
      retry(events)
    }
  }

  function flush(): void {
    cancelFlush = undefined
    const events = [...waiting.values()]
    waiting = new Map()
    for (const batch of batchesOf(events)) void sendOrRetry(batch)
  }

  return {
    share(event: HealthEvent): void {
      if (waiting.size >= MAX_WAITING) return
      const name = nameOf(event)
      latest.set(name, ++serial)
      // Deleted first, so that events are sent in the order of their last change.
      waiting.delete(name)
      waiting.set(name, { event: shorten(event), serial, retries: 0 })
      cancelFlush ??= timers.after(FLUSH_AFTER_MS, flush)
    },
    close: () => cancelFlush?.(),
  }
}
