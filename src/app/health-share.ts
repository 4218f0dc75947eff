import type { HealthEvent } from '../domain/channel-condition.ts'
import { systemTimers, type Timers } from '../host/timers.ts'

const FLUSH_AFTER_MS = 50
/** A notification has at most 8,000 bytes, with its signature and the name of the call. */
const MAX_BATCH_BYTES = 6_000
const MAX_REASON = 300
/** More are dropped: a provider that fails with all channels at once is noticed by every node. */
const MAX_WAITING = 500

type HealthShareDeps = {
  /** Sends the events to all other nodes. */
  send(events: readonly HealthEvent[]): Promise<unknown>
  onFailure(error: Error): void
  readonly timers?: Pick<Timers, 'after'>
}

/** Events in batches that fit into a notification. Reasons are texts of providers, in any language. */
function* batchesOf(events: readonly HealthEvent[]): Generator<readonly HealthEvent[]> {
  let batch: HealthEvent[] = []
  let bytes = 0
  for (const event of events) {
    const size = Buffer.byteLength(JSON.stringify(event)) + 1
    if (bytes + size > MAX_BATCH_BYTES && batch.length > 0) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(event)
    bytes += size
  }
  if (batch.length > 0) yield batch
}

/** Collects changes of the health of channels for a moment, and sends the latest of each channel and key to all other nodes. */
export function createHealthShare({ send, onFailure, timers = systemTimers }: HealthShareDeps) {
  let waiting = new Map<string, HealthEvent>()
  /** Cancels the timer of the next flush. */
  let cancelFlush: (() => void) | undefined

  const shorten = (event: HealthEvent): HealthEvent =>
    event.cooldown && event.cooldown.reason.length > MAX_REASON
      ? {
          ...event,
          cooldown: { ...event.cooldown, reason: `${event.cooldown.reason.slice(0, MAX_REASON)}…` },
        }
      : event

  function flush(): void {
    cancelFlush = undefined
    const events = [...waiting.values()]
    waiting = new Map()
    for (const batch of batchesOf(events)) send(batch).catch(onFailure)
  }

  return {
    share(event: HealthEvent): void {
      if (waiting.size >= MAX_WAITING) return
      const name = `${event.channelId}/${event.keyIndex ?? ''}`
      // Deleted first, so that events are sent in the order of their last change.
      waiting.delete(name)
      waiting.set(name, shorten(event))
      cancelFlush ??= timers.after(FLUSH_AFTER_MS, flush)
    },
    close: () => cancelFlush?.(),
  }
}
