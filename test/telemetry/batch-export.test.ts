import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createBatchExport } from '../../src/telemetry/batch-export.ts'
import type { PostOutcome } from '../../src/telemetry/http-delivery.ts'
import { createProtobufEncoding } from '../../src/telemetry/otlp-protobuf.ts'
import { attributeKey, SPAN_KIND, type Span } from '../../src/telemetry/span.ts'
import { until } from '../support/process.ts'

const LONG = attributeKey('long')
const NEGATIVE = attributeKey('negative', 'int')

const span: Span = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  parentSpanId: undefined,
  traceState: undefined,
  name: 'chat',
  kind: SPAN_KIND.server,
  startMs: 1_790_000_000_123.456,
  endMs: 1_790_000_000_200,
  attributes: [LONG, 'ü'.repeat(200), NEGATIVE, -7],
  shared: undefined,
  error: undefined,
}
const source = { resource: [], scope: { name: 'test', version: '1' } }
const DOWN: PostOutcome = { kind: 'failed', reason: 'down', retryAfterMs: 0 }

describe('the export of spans (docs/reference/tracing.md: Delivery)', () => {
  it('keeps a bounded number of batches while the receiver is down, and counts what it drops', async () => {
    let isDown = true
    let delivered = 0
    const dropped: Record<string, number> = {}
    const spans = createBatchExport({
      batch: createProtobufEncoding(source).openBatch(),
      async deliver(body) {
        await new Promise(setImmediate)
        if (isDown) return DOWN
        delivered += body.length
        return { kind: 'delivered' }
      },
      onOutcome() {},
      onDrop(count, reason) {
        dropped[reason] = (dropped[reason] ?? 0) + count
      },
      random: () => 0,
    })
    for (let i = 0; i < 20_000; i++) spans.add(span)
    assert.deepEqual(dropped, { full: 20_000 - 8 * 1_024 })
    isDown = false
    await until('the batches', () => (delivered > 8 * 1_024 * 400 ? true : undefined))
    await spans.close(1_000)
    assert.deepEqual(Object.keys(dropped), ['full'])
  })

  it('uses the memory of a batch again once it is delivered, and not while it may be read', async () => {
    const outcomes: PostOutcome[] = [
      { kind: 'delivered' },
      DOWN,
      { kind: 'delivered' },
      { kind: 'refused', reason: 'bad' },
      { kind: 'delivered' },
    ]
    const bodies: { readonly memory: ArrayBufferLike; readonly bytes: Buffer }[] = []
    const spans = createBatchExport({
      batch: createProtobufEncoding(source).openBatch(),
      async deliver(body) {
        bodies.push({ memory: body.buffer, bytes: Buffer.from(body) })
        return outcomes[bodies.length - 1] ?? { kind: 'delivered' }
      },
      onOutcome() {},
      onDrop() {},
      random: () => 0,
    })
    const deliverBatch = async (name: string, deliveries: number) => {
      const before = bodies.length
      for (let i = 0; i < 1_024; i++) spans.add({ ...span, name })
      await until('the delivery', () => (bodies.length === before + deliveries ? true : undefined))
      await new Promise(setImmediate)
    }
    await deliverBatch('first', 1)
    await deliverBatch('second', 2)
    await deliverBatch('third', 1)
    await deliverBatch('fourth', 1)
    const [first, second, again, third, fourth] = bodies
    assert.equal(second?.memory, first?.memory)
    assert.equal(third?.memory, first?.memory)
    assert.notEqual(fourth?.memory, first?.memory, 'the receiver may still read a batch that it refused')
    assert.deepEqual(again?.bytes, second?.bytes)
    for (const [body, name] of [
      [first, 'first'],
      [second, 'second'],
      [third, 'third'],
      [fourth, 'fourth'],
    ] as const)
      assert.equal(body?.bytes.toString('latin1').split(name).length, 1_025)
    await spans.close(1_000)
  })

  it('does not wait for a receiver that is down when the gateway stops', async () => {
    const dropped: [number, string][] = []
    const spans = createBatchExport({
      batch: createProtobufEncoding(source).openBatch(),
      deliver: async () => DOWN,
      onOutcome() {},
      onDrop: (count, reason) => void dropped.push([count, reason]),
      random: () => 0,
    })
    spans.add(span)
    await spans.close(60_000)
    assert.deepEqual(dropped, [[1, 'shutdown']])
  })
})
