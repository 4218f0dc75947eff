import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { suiteMedia } from '../../support/media.ts'

describe('very large images', () => {
  const media = suiteMedia('sqlite')

  it('are forwarded up to 64 MiB, and are a failure above that', async () => {
    const { model } = await media.offer('sim-words-40', { image: 0.01 })
    const large = await media.offer('sim-words-80', { image: 0.01 })
    const { id, key } = await media.open()
    const body = { prompt: 'a cat', response_format: 'b64_json' }
    const reply = await media.api('POST', '/v1/images/generations', { ...body, model }, { token: key })
    assert.equal(reply.status, 200)
    assert.equal(reply.body.data[0].b64_json.length, 40 * 1_048_576)
    const none = await media.api(
      'POST',
      '/v1/images/generations',
      { ...body, model: large.model },
      { token: key },
    )
    assert.deepEqual([none.status, none.body.error.code], [502, 'upstream_error'])
    const rows = await media.rowsOf(id, 2)
    assert.deepEqual(
      rows.map(({ cost }) => cost),
      [10_000_000, 0],
    )
  })
})
