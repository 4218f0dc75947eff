import { setTimeout as delay } from 'node:timers/promises'
import type { Db } from '../store/engine/store.ts'
import {
  leaseShipCursor,
  moveShipCursor,
  openShipCursor,
  releaseShipCursor,
  type ShippedStream,
} from '../store/records/ship-cursors.ts'
import type { PostOutcome } from '../telemetry/http-delivery.ts'
import { retryWaitMs } from '../telemetry/outbox.ts'

const IDLE_MS = 2_000
const LEASE_MS = 120_000

/** A body may exceed this only if a single record does. */
const MAX_BODY_BYTES = 1_048_576

/** A record and its position in the stream. */
export type ShippedRecord = { readonly position: number; readonly line: unknown }

/** As many records as one body may have, and the position of the last one. */
function bodyOf(records: readonly ShippedRecord[]): { readonly body: Buffer; readonly last: number } {
  const lines: Buffer[] = []
  let bytes = 0
  let last = 0
  for (const { position, line } of records) {
    const encoded = Buffer.from(`${JSON.stringify(line)}\n`)
    bytes += encoded.length
    if (lines.length > 0 && bytes > MAX_BODY_BYTES) break
    lines.push(encoded)
    last = position
  }
  return { body: Buffer.concat(lines), last }
}

type StoreShippingDeps = {
  readonly db: Db
  readonly stream: ShippedStream
  /** The node of this process: after a crash, its successor continues at once. */
  readonly nodeId: string
  /** `wait` returns false if the process is stopping. */
  read(after: number, wait: (ms: number) => Promise<boolean>): Promise<readonly ShippedRecord[]>
  deliver(body: Buffer): Promise<PostOutcome>
  onOutcome(failure: string | undefined): void
  onFailure(error: Error): void
}

/**
 * Ships the records of a stream as JSON lines. The store is the buffer: a position in it says how far the stream is shipped,
 * and moves only after the receiver has accepted the records. One process of all that share the store ships a stream.
 */
export function createStoreShipping(deps: StoreShippingDeps) {
  const { db, stream, nodeId: by, read, deliver, onOutcome, onFailure } = deps
  const closing = new AbortController()
  const shipper = () => ({ by, nowMs: Date.now(), leaseMs: LEASE_MS })
  const wait = (ms: number) => delay(ms, true, { ref: false, signal: closing.signal }).catch(() => false)
  let failures = 0

  /** Ships one batch. Returns how long to wait before the next one. */
  async function shipSome(): Promise<number> {
    const after = await leaseShipCursor(db, stream, shipper())
    if (after === undefined) return IDLE_MS
    const records = await read(after, wait)
    if (records.length === 0) return IDLE_MS
    const { body, last } = bodyOf(records)
    const outcome = await deliver(body)
    if (outcome.kind !== 'delivered') {
      // Nothing is dropped: the records wait in the store, even if the receiver refuses them.
      onOutcome(outcome.reason)
      failures += 1
      return retryWaitMs(failures, outcome.kind === 'failed' ? outcome.retryAfterMs : undefined, Math.random)
    }
    onOutcome(undefined)
    failures = 0
    await moveShipCursor(db, stream, last, shipper())
    return 0
  }

  async function run(): Promise<void> {
    let isOpen = false
    while (!closing.signal.aborted) {
      let waitMs = IDLE_MS
      try {
        if (!isOpen) await openShipCursor(db, stream)
        isOpen = true
        waitMs = await shipSome()
      } catch (error) {
        onFailure(error as Error)
      }
      if (waitMs > 0) await wait(waitMs)
    }
    await releaseShipCursor(db, stream, by).catch(() => undefined)
  }

  const running = run()
  return {
    async close(): Promise<void> {
      closing.abort()
      await running
    },
  }
}
