import type { TelemetryEncoding } from './encoding.ts'
import { createOutbox } from './outbox.ts'
import type { Span } from './span.ts'

/** A batch is sent when it has this many spans, or this long after its first one. */
const MAX_BATCH_SPANS = 1_024
const BATCH_AFTER_MS = 1_000
/** Batches that wait for the receiver: some 8,000 spans, 4 MiB. */
const MAX_BATCHES = 8

type SpanExportDeps = Pick<
  Parameters<typeof createOutbox>[0],
  'deliver' | 'onOutcome' | 'onDrop' | 'random'
> & {
  readonly encoding: TelemetryEncoding
}

/**
 * Exports spans in batches. A span is encoded at once: the bytes are a tenth of the objects, and nothing of the request
 * stays in memory.
 */
export function createSpanExport({ encoding, ...deps }: SpanExportDeps) {
  const outbox = createOutbox({ ...deps, maxBatches: MAX_BATCHES })
  const batch = encoding.openBatch()
  let timer: NodeJS.Timeout | undefined

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    const count = batch.count()
    if (count > 0) outbox.push({ count, body: batch.take() })
  }

  return {
    add(span: Span): void {
      // While the receiver does not respond, further spans are not even encoded.
      if (outbox.isFull()) {
        deps.onDrop(1, 'full')
        return
      }
      batch.add(span)
      if (batch.count() >= MAX_BATCH_SPANS) flush()
      else timer ??= setTimeout(flush, BATCH_AFTER_MS).unref()
    },
    close(withinMs: number): Promise<void> {
      flush()
      return outbox.close(withinMs)
    },
  }
}

export type SpanExport = ReturnType<typeof createSpanExport>
