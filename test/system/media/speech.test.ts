import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { requestSpeech, suiteMedia } from '../../support/media.ts'

const MP3_BYTES_A_SECOND = 16_263

describe('a hundred megabytes of speech', () => {
  const media = suiteMedia('sqlite')

  it('arrive completely, and are charged by their length', async () => {
    const { model } = await media.offer('sim-words-6300', { per_second: 0.0001 })
    const { id, key } = await media.open({ remain_quota: 50_000_000 })
    let bytes = 0
    for await (const chunk of await requestSpeech(media.gateway.url, key, model))
      bytes += (chunk as Buffer).length
    assert.ok(bytes > 6_300 * (MP3_BYTES_A_SECOND - 400), `${bytes} bytes came`)
    assert.equal((await media.rowOf(id)).other.seconds, 6300)
  })
})
