import { createOutbox } from './outbox.ts'

/** A batch is sent when it has this many items or bytes, or this long after its first one. */
const MAX_BATCH_ITEMS = 1_024
/** Spans with the messages of a chat are long. */
const MAX_BATCH_BYTES = 1_048_576
const BATCH_AFTER_MS = 1_000
/** Batches that wait for the receiver: some 8,000 items; at most 8 MiB and the last item of each. */
const MAX_BATCHES = 8

/** Encoded items that are sent together. */
export type ExportBatch<Item> = {
  add(item: Item): void
  /** The number of items. */
  count(): number
  /** The length of the encoded items; of texts, in characters. */
  bytes(): number
  /** The body with all items; the batch is empty afterwards. */
  take(): Buffer
  /** The body is not needed any more, so another one may use its memory. */
  reuse?(body: Buffer): void
}

type BatchExportDeps<Item> = Omit<Parameters<typeof createOutbox>[0], 'maxBatches'> & {
  readonly batch: ExportBatch<Item>
}

/**
 * Exports items in batches. An item is encoded at once: the bytes are a tenth of the objects, and nothing of the request
 * stays in memory.
 */
export function createBatchExport<Item>({ batch, ...deps }: BatchExportDeps<Item>) {
  const outbox = createOutbox({ ...deps, maxBatches: MAX_BATCHES })
  let timer: NodeJS.Timeout | undefined

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    const count = batch.count()
    if (count === 0) return
    const body = batch.take()
    outbox.push({ count, body, onDelivered: () => batch.reuse?.(body) })
  }

  return {
    add(item: Item): void {
      // While the receiver does not respond, further items are not even encoded.
      if (outbox.isFull()) {
        deps.onDrop(1, 'full')
        return
      }
      batch.add(item)
      if (batch.count() >= MAX_BATCH_ITEMS || batch.bytes() >= MAX_BATCH_BYTES) flush()
      else timer ??= setTimeout(flush, BATCH_AFTER_MS).unref()
    },
    close(withinMs: number): Promise<void> {
      flush()
      return outbox.close(withinMs)
    },
  }
}
