import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Refusal } from '../../../src/domain/errors.ts'
import { inputBound, MEDIA_TOKENS } from '../../../src/metering/prompt-size.ts'
import { operationAt } from '../../../src/relay/operations/index.ts'
import { READ_CONTEXT } from '../../support/read-context.ts'

const MAXIMUM = 1_000
const MESSAGES = [{ role: 'user', content: 'hi' }]
const CONTENTS = [{ parts: [{ text: 'hi' }] }]

function work(path: string, body: Readonly<Record<string, unknown>>) {
  const spec = operationAt(path, path)
  assert.ok(spec?.read)
  return spec.read(body, Buffer.from(JSON.stringify(body)), READ_CONTEXT)
}

const outputOf = (path: string, body: Readonly<Record<string, unknown>>) =>
  work(path, body).outputTokens(MAXIMUM)

const chat = (more: object) => ({ model: 'm', messages: MESSAGES, ...more })

describe('the possible cost of a request', () => {
  it('is bounded by the greatest limit, under any name that a host accepts', () => {
    for (const name of [
      'max_output_tokens',
      'max_new_tokens',
      'max_tokens_to_sample',
      'num_predict',
      'n_predict',
    ])
      assert.equal(outputOf('/v1/chat/completions', chat({ max_tokens: 9, [name]: 500 })), 500, name)
    assert.equal(
      outputOf('/v1/completions', { model: 'm', prompt: 'p', max_tokens: 9, max_new_tokens: 500 }),
      500,
    )
    assert.equal(outputOf('/v1/messages', chat({ max_tokens: 9, max_output_tokens: 500 })), 500)
    const responses = { model: 'm', input: 'hi', max_output_tokens: 16, max_tokens: 500 }
    assert.equal(outputOf('/v1/responses', responses), 500)
  })

  it('is bounded by the choices that are generated, not only by those that are returned', () => {
    for (const name of ['best_of', 'num_return_sequences', 'candidate_count', 'n_cmpl']) {
      assert.equal(outputOf('/v1/chat/completions', chat({ max_tokens: 9, n: 2, [name]: 5 })), 45, name)
      const completion = { model: 'm', prompt: 'p', max_tokens: 9, n: 2, [name]: 5 }
      assert.equal(outputOf('/v1/completions', completion), 45, name)
    }
  })

  it('includes the reasoning budget beside the limit, because some hosts do not count it in the limit', () => {
    for (const budget of [
      { thinking: { type: 'enabled', budget_tokens: 4_000 } },
      { reasoning: { max_tokens: 4_000 } },
      { thinking_budget: 4_000 },
    ])
      assert.equal(outputOf('/v1/chat/completions', chat({ max_tokens: 50, n: 2, ...budget })), 8_100)
    const thinking = { type: 'enabled', budget_tokens: 4_000 }
    assert.equal(outputOf('/v1/messages', chat({ max_tokens: 50, thinking })), 4_050)
    // The usual case: the budget is a part of the limit.
    assert.equal(outputOf('/v1/messages', chat({ max_tokens: 5_000, thinking })), 5_000)
    assert.equal(outputOf('/v1/chat/completions', chat({ max_tokens: 50, thinking_budget: -1 })), 50)
  })

  it('includes the text of a prediction beside the limit, which is billed as output if it is not used', () => {
    const content = 'word '.repeat(1_000)
    const prediction = { type: 'content', content }
    assert.ok(outputOf('/v1/chat/completions', chat({ max_tokens: 50, prediction })) >= 50 + content.length)
  })

  it('includes a file stored at the vendor, by its type', () => {
    const { inputTokens } = work('/v1/responses', {
      model: 'm',
      input: [
        { type: 'item_reference', id: 'msg_1' },
        { role: 'user', content: 'hi' },
      ],
    })
    const media = { images: 0, audio: 0, files: 1, videos: 0 }
    assert.ok(inputTokens >= inputBound({ textBytes: 0, media }))
    assert.ok(MEDIA_TOKENS.files > 0)
  })
})

describe('the possible input of a request', () => {
  const inputOf = (path: string, body: Readonly<Record<string, unknown>>) => work(path, body).inputTokens

  it('includes a stored item whose reference has no type, which is optional', () => {
    for (const reference of [
      { id: 'rs_1' },
      { type: null, id: 'rs_1' },
      { type: 'item_reference', id: 'rs_1' },
    ])
      assert.ok(inputOf('/v1/responses', { model: 'm', input: [reference] }) > MEDIA_TOKENS.files)
    const message = { id: 'msg_1', role: 'user', content: 'hi' }
    assert.ok(inputOf('/v1/responses', { model: 'm', input: [message] }) < 1_000)
  })

  it('includes a screenshot, and every image of a document', () => {
    const output = { type: 'computer_screenshot', image_url: 'https://images.example/1.png' }
    const shot = { type: 'computer_call_output', call_id: 'c', output }
    assert.ok(inputOf('/v1/responses', { model: 'm', input: [shot] }) > MEDIA_TOKENS.images)
    const image = { type: 'image', source: { type: 'url', url: 'https://images.example/1.png' } }
    const document = { type: 'document', source: { type: 'content', content: Array(100).fill(image) } }
    const messages = [{ role: 'user', content: [document] }]
    assert.ok(inputOf('/v1/messages', { model: 'm', max_tokens: 5, messages }) > 100 * MEDIA_TOKENS.images)
  })

  it('includes documents by their address, and media parts without a type, which vLLM accepts', () => {
    const url = 'https://files.example/1'
    const cases: readonly (readonly [part: object, kind: keyof typeof MEDIA_TOKENS])[] = [
      [{ type: 'document_url', document_url: url }, 'files'],
      [{ type: 'file_url', file_url: { url } }, 'files'],
      [{ image_url: url }, 'images'],
      [{ image_url: { url } }, 'images'],
      [{ audio_url: url }, 'audio'],
      [{ type: null, video_url: { url } }, 'videos'],
    ]
    const inputWith = (message: object) =>
      inputOf('/v1/chat/completions', { model: 'm', messages: [{ role: 'user', ...message }] })
    for (const [part, kind] of cases) {
      const tokens = inputWith({ content: [part] })
      assert.ok(tokens > MEDIA_TOKENS[kind], JSON.stringify(part))
      assert.ok(tokens < MEDIA_TOKENS[kind] + 1_000, JSON.stringify(part))
    }
    const document = `data:application/pdf;base64,${'A'.repeat(4_000)}`
    const inline = inputWith({ content: [{ type: 'document_url', document_url: document }] })
    assert.ok(inline < MEDIA_TOKENS.files + 1_000)
  })
})

describe('a request is refused', () => {
  const refused = (path: string, body: Readonly<Record<string, unknown>>, param: string) =>
    assert.throws(
      () => work(path, body),
      (error: unknown) => {
        assert.ok(error instanceof Refusal, String(error))
        assert.equal(error.code, 'invalid_parameter')
        assert.equal(error.errors?.[0]?.path, param)
        return true
      },
      `${path} ${JSON.stringify(body)}`,
    )

  it('for a limit or a budget that is not a number', () => {
    refused('/v1/chat/completions', chat({ num_predict: '90000' }), 'num_predict')
    // Of llama.cpp: no limit.
    refused('/v1/chat/completions', chat({ max_tokens: 1, n_predict: -1 }), 'n_predict')
    refused('/v1/chat/completions', chat({ thinking: { budget_tokens: '90000' } }), 'thinking.budget_tokens')
    refused('/v1/chat/completions', chat({ thinking_budget: 1.5 }), 'thinking_budget')
  })

  it('for another model in the body than in the path', () => {
    const content = { parts: [{ text: 'hi' }] }
    const at = (method: string) => `/v1beta/models/cheap:${method}`
    refused(at('generateContent'), { model: 'models/dear', contents: CONTENTS }, 'model')
    refused(at('streamGenerateContent'), { model: 'dear', contents: CONTENTS }, 'model')
    refused(at('embedContent'), { model: 'models/dear', content }, 'model')
    const requests = [
      { model: 'models/cheap', content },
      { model: 'models/dear', content },
    ]
    refused(at('batchEmbedContents'), { requests }, 'requests[1].model')
    assert.equal(work(at('generateContent'), { model: 'models/cheap', contents: CONTENTS }).model, 'cheap')
    assert.equal(work(at('embedContent'), { model: 'cheap', content }).model, 'cheap')
  })

  it('for input that only the provider can see', () => {
    const path = '/v1beta/models/m:generateContent'
    refused(path, { contents: CONTENTS, cachedContent: 'cachedContents/1' }, 'cachedContent')
    refused(path, { contents: CONTENTS, cached_content: 'cachedContents/1' }, 'cached_content')
    assert.equal(work(path, { contents: CONTENTS, cachedContent: '' }).model, 'm')
  })

  it('for an answer that the provider would keep, where the gateway never sees its usage', () => {
    const path = '/v1/chat/completions'
    refused(path, chat({ deferred: true }), 'deferred')
    assert.equal(work(path, chat({ deferred: false })).model, 'm')
    refused('/v1/responses', { model: 'm', input: 'hi', background: true }, 'background')
  })

  it('for image counts or sizes under other names than those that are billed', () => {
    const picture = (more: object) => ({ model: 'm', prompt: 'p', ...more })
    const path = '/v1/images/generations'
    refused(path, picture({ n: 1, batch_size: 4 }), 'batch_size')
    refused(path, picture({ num_images: 4 }), 'num_images')
    refused(path, picture({ max_images: 4 }), 'max_images')
    refused(path, picture({ sequential_image_generation: 'auto' }), 'sequential_image_generation')
    refused(path, picture({ sequential_image_generation: true }), 'sequential_image_generation')
    work(path, picture({ sequential_image_generation: 'disabled' }))
    refused(path, picture({ size: '256x256', width: 2_048, height: 2_048 }), 'size')
    refused(path, picture({ size: '256x256', image_size: '2048x2048' }), 'size')
    assert.deepEqual(work(path, picture({ image_size: '2048x2048' })).priceConditions, { size: '2048x2048' })
    assert.deepEqual(work(path, picture({ width: 512, height: 512 })).priceConditions, { size: '512x512' })
    assert.equal(work(path, picture({ n: 2, batch_size: 2 })).units?.images, 2)
  })
})
