import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createHttpDelivery } from '../../src/telemetry/http-delivery.ts'
import { createJsonEncoding } from '../../src/telemetry/otlp-json.ts'
import { createProtobufEncoding } from '../../src/telemetry/otlp-protobuf.ts'
import { type AttributeList, attributeKey, SPAN_KIND, type Span } from '../../src/telemetry/span.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp-receiver.ts'

const TEXT = attributeKey('text')
const WHOLE = attributeKey('whole', 'int')
const DOUBLE = attributeKey('double', 'double')
const FLAG = attributeKey('flag', 'bool')
const LONG_NAME = attributeKey(`name.${'x'.repeat(300)}`)

const VALUES: readonly [string, AttributeList, Readonly<Record<string, unknown>>][] = [
  ['an empty text', [TEXT, ''], { text: '' }],
  ['a text of 36 characters', [TEXT, 'a'.repeat(36)], { text: 'a'.repeat(36) }],
  ['a text of 255 characters of three bytes', [TEXT, '語'.repeat(255)], { text: '語'.repeat(255) }],
  ['half of a surrogate pair', [TEXT, 'a\ud800'], { text: 'a\ufffd' }],
  ['0 and false', [WHOLE, 0, FLAG, false], { whole: 0, flag: false }],
  ['large numbers', [WHOLE, 2 ** 52 + 1, DOUBLE, 0.1], { whole: 2 ** 52 + 1, double: 0.1 }],
  ['a negative number', [WHOLE, -1], { whole: -1 }],
  ['a long name', [LONG_NAME, 'x', FLAG, true], { [LONG_NAME.name]: 'x', flag: true }],
]

const spanWith = (attributes: AttributeList, shared?: AttributeList): Span => ({
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  parentSpanId: '00f067aa0ba902b7',
  traceState: 'a=b',
  name: 'chat 語',
  kind: SPAN_KIND.client,
  startMs: 1_790_000_000_123.456,
  endMs: 1_790_000_100_000,
  attributes,
  shared,
  error: 'timeout',
})

const source = { resource: [TEXT, 'resource'], scope: { name: 'test', version: '1' } }

for (const [name, create] of [
  ['protobuf', createProtobufEncoding],
  ['JSON', createJsonEncoding],
] as const)
  describe(`OTLP in ${name}`, () => {
    let receiver: OtlpReceiver
    before(async () => {
      receiver = await startOtlpReceiver()
    })
    after(() => receiver?.close())

    const encoding = create(source)

    async function roundTrip(spans: readonly Span[]) {
      const target = { url: `${receiver.url}/v1/traces`, headers: {}, timeoutMs: 30_000, isCompressed: false }
      const { deliver, close } = createHttpDelivery(target, encoding.contentType)
      const batch = encoding.openBatch()
      for (const span of spans) batch.add(span)
      assert.equal(batch.count(), spans.length)
      const before = receiver.spans().length
      const delivery = await deliver(batch.take())
      await close()
      assert.deepEqual([delivery, receiver.faults], [{ kind: 'delivered' }, []])
      assert.equal(batch.count(), 0)
      return receiver.spans().slice(before)
    }

    // JSON has no numbers above 2^53, and no halves of pairs; the schema's reader keeps the latter.
    for (const [what, attributes, expected] of VALUES)
      it(`keeps ${what}`, { skip: name === 'JSON' && what.startsWith('half') }, async () => {
        const [own, shared] = await roundTrip([spanWith(attributes), spanWith([], attributes)])
        assert.deepEqual([own?.attributes, shared?.attributes], [expected, expected])
      })

    it('keeps ids, times, state and status', async () => {
      const [span] = await roundTrip([spanWith([])])
      const {
        traceId,
        spanId,
        parentSpanId,
        traceState,
        name: spanName,
        kind,
        startNs,
        endNs,
        status,
      } = span ?? {}
      assert.deepEqual(
        { traceId, spanId, parentSpanId, traceState, spanName, kind, startNs, endNs, status },
        {
          traceId: '0af7651916cd43dd8448eb211c80319c',
          spanId: 'b7ad6b7169203331',
          parentSpanId: '00f067aa0ba902b7',
          traceState: 'a=b',
          spanName: 'chat 語',
          kind: 3,
          startNs: 1_790_000_000_123_456_000n,
          endNs: 1_790_000_100_000_000_000n,
          status: { message: 'timeout', code: 2 },
        },
      )
    })

    it('encodes a batch of thousands of spans', async () => {
      const attributes = [TEXT, 'a'.repeat(255)]
      assert.equal((await roundTrip(Array.from({ length: 5_000 }, () => spanWith(attributes)))).length, 5_000)
    })
  })
