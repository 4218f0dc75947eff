import { setTimeout as delay } from 'node:timers/promises'
import type { PostOutcome } from './http-delivery.ts'

const FIRST_RETRY_MS = 1_000
const MAX_RETRY_MS = 30_000

/** Several items, encoded as one request. */
export type OutgoingBatch = {
  readonly body: Buffer
  readonly count: number
  /** Called when the receiver has accepted the batch: its memory is not read any more. */
  onDelivered?(): void
}

export type DropReason = 'full' | 'refused' | 'shutdown'

type OutboxDeps = {
  deliver(body: Buffer): Promise<PostOutcome>
  /** Further batches are dropped. */
  readonly maxBatches: number
  /** Called after every POST: undefined after a success, else the reason. */
  onOutcome(failure: string | undefined): void
  onDrop(count: number, reason: DropReason): void
  random(): number
}

/** Exponential backoff between half and the whole of the wait, unless the receiver names a time. */
export function retryWaitMs(
  failures: number,
  retryAfterMs: number | undefined,
  random: () => number,
): number {
  if (retryAfterMs !== undefined) return retryAfterMs
  const longest = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1))
  return longest * (0.5 + random() / 2)
}

/** A bounded queue of batches, which are sent one after the other. A batch that could not be delivered is retried. */
export function createOutbox({ deliver, maxBatches, onOutcome, onDrop, random }: OutboxDeps) {
  const queue: OutgoingBatch[] = []
  const closing = new AbortController()
  let running: Promise<void> | undefined

  async function sendAll(): Promise<void> {
    let failures = 0
    for (let batch = queue[0]; batch !== undefined; batch = queue[0]) {
      const delivery = await deliver(batch.body)
      onOutcome(delivery.kind === 'delivered' ? undefined : delivery.reason)
      if (delivery.kind === 'failed') {
        // At shutdown there is no time for a retry.
        if (closing.signal.aborted) return
        failures += 1
        const waitMs = retryWaitMs(failures, delivery.retryAfterMs, random)
        await delay(waitMs, undefined, { ref: false, signal: closing.signal }).catch(() => {})
        continue
      }
      failures = 0
      queue.shift()
      if (delivery.kind === 'refused') onDrop(batch.count, 'refused')
      else batch.onDelivered?.()
    }
  }

  function run(): void {
    running ??= sendAll().finally(() => {
      running = undefined
    })
  }

  return {
    isFull: () => queue.length >= maxBatches,
    push(batch: OutgoingBatch): void {
      if (queue.length >= maxBatches) {
        onDrop(batch.count, 'full')
        return
      }
      queue.push(batch)
      run()
    },
    /** Sends what is queued, within this time, and drops the rest. */
    async close(withinMs: number): Promise<void> {
      closing.abort()
      const deadline = new AbortController()
      await Promise.race([running, delay(withinMs, undefined, { signal: deadline.signal }).catch(() => {})])
      deadline.abort()
      const unsent = queue.splice(0).reduce((sum, { count }) => sum + count, 0)
      if (unsent > 0) onDrop(unsent, 'shutdown')
    },
  }
}
