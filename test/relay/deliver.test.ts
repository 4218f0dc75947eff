import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { describe, it } from 'node:test'
import { createBudget } from '../../src/http/budget.ts'
import type { RelayOutgoing } from '../../src/http/relay-exchange.ts'
import { emptyReading } from '../../src/metering/stream-meter.ts'
import { deliver } from '../../src/relay/answer/deliver.ts'
import type { StreamMeter } from '../../src/relay/operations/channel-request.ts'
import { streamFault, streamHealth } from '../../src/relay/stream-outcome.ts'
import type { Receiver } from '../../src/relay/upstream/exchange.ts'

describe('a stream whose hold fails with an exception', () => {
  it('is cut, and its channel is not at fault', async () => {
    let receiver: Receiver | undefined
    let aborted = 0
    const writtenChunks: string[] = []
    const response = Object.assign(new EventEmitter(), {
      destroyed: false,
      chunkedEncoding: false,
      writableCorked: 0,
      write: (bytes: Buffer) => writtenChunks.push(bytes.toString()) > 0,
    })
    const meter = {
      reading: emptyReading(),
      push: (chunk: Buffer) => [chunk],
      end: () => [],
      ending: () => 'incomplete' as const,
    }
    const delivering = deliver({
      response: response as unknown as RelayOutgoing,
      flow: {
        peek: () => Buffer.alloc(0),
        listen: listener => {
          receiver = listener
        },
        pause: () => {},
        resume: () => {},
      },
      meter: meter as unknown as StreamMeter,
      keepAlive: undefined,
      memory: createBudget({ maxBytes: 1_000_000, onShortage: () => {} }),
      abort: () => {
        aborted++
      },
      onProgress: () => {
        throw new RangeError('The amount is too large.')
      },
      nowMs: () => 5_000,
    })
    receiver?.data(Buffer.from('data: 1\n\n'))
    receiver?.data(Buffer.from('data: 2\n\n'))
    const delivery = await delivering
    assert.deepEqual(delivery, {
      ending: 'cut',
      failure: { kind: 'failure', reason: 'local', message: 'The amount is too large.', wasSent: true },
    })
    assert.equal(aborted, 1)
    assert.deepEqual(writtenChunks, ['data: 1\n\n'])
    const fault = streamFault(delivery, meter)
    assert.equal(fault?.code, 'internal_error')
    assert.deepEqual(streamHealth(delivery, fault), { kind: 'client' })
  })
})
