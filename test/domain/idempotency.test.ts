import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { invalidField } from '../../src/domain/errors.ts'
import { parseIdempotencyKey, replay } from '../../src/domain/idempotency.ts'

describe('an Idempotency-Key', () => {
  it('is 1 to 255 printable characters in one header, or absent', () => {
    assert.equal(parseIdempotencyKey(undefined, invalidField), undefined)
    for (const key of ['!', '~'.repeat(255)]) assert.equal(parseIdempotencyKey(key, invalidField), key)
    for (const key of ['', 'two words', 'ä', 'k'.repeat(256), ['one', 'two']])
      assert.throws(() => parseIdempotencyKey(key, invalidField), { code: 'invalid_request' })
  })

  it('repeats the response of the first request with the same body', () => {
    const response = { status: 200 }
    assert.equal(replay({ bodyDigest: 'a', response }, 'a'), response)
  })

  it('is in conflict with another body, a running first request, and a response that was not stored', () => {
    const conflict = (message: RegExp) => ({ code: 'idempotency_conflict', message })
    assert.throws(() => replay({ bodyDigest: 'a', response: {} }, 'b'), conflict(/another body/))
    assert.throws(() => replay({ bodyDigest: 'a', response: 'still-running' }, 'b'), conflict(/another body/))
    assert.throws(
      () => replay({ bodyDigest: 'a', response: 'still-running' }, 'a'),
      conflict(/still running/),
    )
    assert.throws(() => replay({ bodyDigest: 'a', response: 'too-large' }, 'a'), conflict(/too large/))
  })
})
