import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, it } from 'node:test'
import { createChainKey, GENESIS, headMac, link, rowMac } from '../../src/domain/chain.ts'
import { fc } from '../support/properties.ts'

const BYTES = Buffer.from('a chain key of thirty-two bytes.')

describe('the key of the chains', () => {
  it('computes the HMAC-SHA-256 of any text', () => {
    const key = createChainKey(BYTES)
    const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 300 }), fc.constantFrom('', 'ü', '🜲'))
    fc.assert(
      fc.property(text, fc.constantFrom(1, 7, 200), (part, times) => {
        const whole = part.repeat(times)
        assert.equal(key.mac(whole), createHmac('sha256', BYTES).update(whole).digest('hex'))
      }),
    )
  })

  it('gives links, heads and rows different digests', () => {
    const key = createChainKey(BYTES)
    const head = { name: 'store', seq: 1, hash: GENESIS, position: 0, oldestOpen: 0 }
    const digests = [link(key, GENESIS, ['store', 1]), headMac(key, head), rowMac(key, 'store', [1])]
    assert.equal(new Set(digests).size, 3)
  })
})
