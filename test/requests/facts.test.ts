import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inputBound, MEDIA_TOKENS } from '../../src/metering/prompt-size.ts'
import { boundsOf, createFactsReader, readContentFacts } from '../../src/requests/facts.ts'

const readMessages = createFactsReader({ turns: 'messages' })
const ask = (content: unknown) => ({ model: 'm', max_tokens: 5, messages: [{ role: 'user', content }] })

function bound(reading: ReturnType<typeof readMessages>): number {
  assert.ok('request' in reading)
  return inputBound(reading.request)
}

describe('the hold for a request', () => {
  it('counts a plain text document by its text', () => {
    const data = 'word '.repeat(100_000)
    const source = { type: 'text', media_type: 'text/plain', data }
    assert.ok(bound(readMessages(ask([{ type: 'document', source }]))) >= data.length + MEDIA_TOKENS.files)
  })

  it('counts an image by its type, not by its bytes', () => {
    const source = { type: 'base64', media_type: 'image/png', data: 'A'.repeat(1_000_000) }
    const tokens = bound(readMessages(ask([{ type: 'image', source }])))
    assert.ok(tokens >= MEDIA_TOKENS.images && tokens < MEDIA_TOKENS.images + 2_000, String(tokens))
  })

  it('recognizes the images, audio and videos of Google’s format, in both spellings', () => {
    for (const part of [
      { inlineData: { mimeType: 'video/mp4', data: 'A'.repeat(10_000) } },
      { inline_data: { mime_type: 'video/mp4', data: 'A'.repeat(10_000) } },
      { fileData: { mimeType: 'video/mp4', fileUri: 'https://x' } },
    ]) {
      const tokens = bound(readContentFacts({ contents: [{ parts: [part] }] }, { model: 'm' }))
      assert.ok(tokens >= MEDIA_TOKENS.videos && tokens < MEDIA_TOKENS.videos + 2_000, String(tokens))
    }
  })

  it('uses the limit and the number of choices in the fields of the format', () => {
    const generationConfig = { maxOutputTokens: 7, candidateCount: 3 }
    const reading = readContentFacts({ contents: [{ parts: [] }], generationConfig }, { model: 'm' })
    assert.ok('request' in reading)
    assert.deepEqual([reading.request.maxOutput, reading.request.n], [7, 3])
    const wrong = readContentFacts({ contents: [{}], generationConfig: { maxOutputTokens: '7' } })
    assert.ok('fault' in wrong)
    assert.equal(wrong.fault.param, 'generationConfig.maxOutputTokens')
  })
})

describe('the upper bounds of a changed body', () => {
  it('are those of its largest limit, in any format', () => {
    for (const body of [
      { max_tokens: 9, messages: [] },
      { max_completion_tokens: 9, max_tokens: 3 },
      { max_output_tokens: 9, input: 'x' },
      { generationConfig: { maxOutputTokens: 9 } },
      { inferenceConfig: { maxTokens: 9 } },
      { options: { num_predict: 9 } },
      { n: 3, max_tokens: 3 },
    ])
      assert.equal(boundsOf(body, 'messages').outputTokens(1_000), 9, JSON.stringify(body))
    assert.equal(boundsOf({ messages: [] }, 'messages').outputTokens(1_000), 1_000)
    assert.equal(boundsOf({ max_tokens: -5 }, 'messages').outputTokens(1_000), 1_000)
  })
})
