import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import type { JsonObject } from '../../src/domain/json-object.ts'
import { countedUsage } from '../../src/domain/usage.ts'
import { promptText } from '../../src/metering/prompt-text.ts'
import { createTextSample } from '../../src/metering/text-sample.ts'
import { chat } from '../../src/relay/operations/openai.ts'
import {
  createTokenCounter,
  MAX_COUNTED_LENGTH,
  type TokenCounter,
} from '../../src/relay/price/token-count.ts'
import { countUsage } from '../../src/relay/price/usage-count.ts'
import { readJson } from '../../src/wire/json-skim.ts'
import { oneEngine } from '../support/gateway.ts'
import { READ_CONTEXT } from '../support/read-context.ts'
import { startRecorder } from '../support/recorder.ts'
import { suiteRelay } from '../support/relay.ts'

const PATIENT_MS = 60_000
const WORDS = 'The quick brown fox jumps over the lazy dog, 你好世界, naïve café. '

describe('the token counter', () => {
  let counter: TokenCounter
  before(() => {
    counter = createTokenCounter({ waitMs: PATIENT_MS, firstWaitMs: PATIENT_MS, onFailure: assert.ifError })
  })
  after(() => counter.close())

  it('counts as the tokenizer table does, for any text', async () => {
    for (const text of ['Hello world', WORDS.repeat(10), 'a <|endoftext|> b'])
      assert.equal(await counter.count(text), countTokens(text, { disallowedSpecial: new Set() }))
    assert.equal(await counter.count(''), 0)
  })

  it('counts a long text in pieces, with nearly the same result', async () => {
    const text = WORDS.repeat(2_000)
    const tokens = await counter.count(text)
    assert.ok(tokens !== undefined && Math.abs(tokens / countTokens(text) - 1) < 0.01, String(tokens))
    assert.ok((await counter.count('x'.repeat(200_000))) !== undefined)
  })

  it('returns no count for a text that is too long, and if too many texts are queued', async () => {
    assert.equal(await counter.count('x'.repeat(MAX_COUNTED_LENGTH + 1)), undefined)
    const pendingCounts = Array.from({ length: 100 }, () => counter.count(WORDS))
    const counts = await Promise.all(pendingCounts)
    assert.equal(counts.filter(tokens => tokens === undefined).length, 36)
  })

  it('returns no count instead of waiting for a thread that is too slow or has ended', async () => {
    const hasty = createTokenCounter({ waitMs: 0, firstWaitMs: 0, onFailure: assert.ifError })
    assert.equal(await hasty.count(WORDS.repeat(1_000)), undefined)
    await hasty.close()
    const closing = createTokenCounter({ firstWaitMs: PATIENT_MS, onFailure: assert.ifError })
    const pendingCount = closing.count(WORDS)
    await closing.close()
    assert.equal(await pendingCount, undefined)
  })

  it('waits longer for the first count, which loads the table', async () => {
    const loading = createTokenCounter({ waitMs: 0, firstWaitMs: PATIENT_MS, onFailure: assert.ifError })
    assert.equal(await loading.count('Hello world'), 2)
    assert.equal(await loading.count(WORDS.repeat(1_000)), undefined)
    await loading.close()
  })

  it('estimates the rest of a text from its beginning', async () => {
    const content = WORDS.repeat(5_000)
    const body = { model: 'm', messages: [{ role: 'user', content }] }
    const work = chat.read(body, Buffer.from(JSON.stringify(body)), READ_CONTEXT, undefined)
    const guess = (tokens: number) => countedUsage(work.countedInput, tokens)
    const sample = createTextSample()
    const outputBytes = Buffer.from(WORDS.repeat(500))
    sample.take(outputBytes, 0, outputBytes.length)
    const { usage, by } = await countUsage(counter, work, { bytes: outputBytes.length, sample }, guess)
    assert.equal(by, 'o200k_base')
    assert.ok(Math.abs(usage.input / countTokens(content) - 1) < 0.02)
    assert.ok(Math.abs(usage.output / countTokens(WORDS.repeat(500)) - 1) < 0.02)
    const nobody = { count: async () => undefined, close: async () => {} }
    const estimated = await countUsage(nobody, work, { bytes: 40 }, guess)
    assert.deepEqual(
      [estimated.by, estimated.usage.input, estimated.usage.output],
      ['bytes', work.countedInput, 10],
    )
  })
})

describe('the prompt text', () => {
  it('is what the model sees: no roles, no images, tools as they are written', () => {
    const tools = [{ type: 'function', function: { name: 'f' } }]
    const content = [
      { type: 'text', text: 'What is this?' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
    ]
    const { text, extra } = promptText({ model: 'm', messages: [{ role: 'user', content }], tools }, 100)
    assert.equal(text, `What is this?\n${JSON.stringify(tools)}`)
    assert.equal(extra, 100 + 4 + 3)
    assert.equal(promptText({ input: [[1, 2, 3]] }, 0).extra, 3)
  })

  describe('of the same conversation', () => {
    const SCHEMA = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    const described = { name: 'weather', description: 'Tells the weather' }
    const NAMES = { name: 'weather' }
    const args = { city: 'Rome' }
    /** The same conversation in each format. */
    const CONVERSATIONS = {
      'a word': {
        chat: { messages: [{ role: 'user', content: 'Hello' }] },
        messages: { messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }], max_tokens: 5 },
        responses: { input: 'Hello' },
        'responses in a list': { input: [{ type: 'message', role: 'user', content: 'Hello' }], text: {} },
        gemini: { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] },
        'gemini without a list': { contents: { parts: [{ text: 'Hello' }] } },
      },
      'a word after instructions': {
        chat: {
          messages: [
            { role: 'system', content: 'Be brief.' },
            { role: 'user', content: 'Hello' },
          ],
        },
        messages: { system: 'Be brief.', messages: [{ role: 'user', content: 'Hello' }] },
        responses: { instructions: 'Be brief.', input: 'Hello', text: { format: { type: 'text' } } },
        gemini: {
          systemInstruction: { parts: [{ text: 'Be brief.' }] },
          contents: [{ parts: [{ text: 'Hello' }] }],
        },
        'gemini in snake case': {
          system_instruction: { parts: [{ text: 'Be brief.' }] },
          contents: [{ parts: [{ text: 'Hello' }] }],
        },
      },
      'tools and a schema': {
        chat: {
          messages: [{ role: 'user', content: 'Hello' }],
          tools: [{ type: 'function', function: { ...described, parameters: SCHEMA } }],
          response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: SCHEMA } },
        },
        messages: {
          messages: [{ role: 'user', content: 'Hello' }],
          tools: [{ ...described, input_schema: SCHEMA }],
          output_config: { format: { type: 'json_schema', schema: SCHEMA } },
        },
        responses: {
          input: 'Hello',
          tools: [{ type: 'function', ...described, parameters: SCHEMA, strict: false }],
          text: { format: { type: 'json_schema', name: 'answer', schema: SCHEMA } },
        },
        gemini: {
          contents: [{ parts: [{ text: 'Hello' }] }],
          tools: [{ functionDeclarations: [{ ...described, parametersJsonSchema: SCHEMA }] }],
          generationConfig: { responseMimeType: 'application/json', responseJsonSchema: SCHEMA },
        },
      },
      'a call and its result': {
        chat: {
          messages: [
            { role: 'user', content: 'Hello' },
            {
              role: 'assistant',
              content: 'Let me look.',
              tool_calls: [
                { id: 'c', type: 'function', function: { ...NAMES, arguments: '{"city":"Rome"}' } },
              ],
            },
            { role: 'tool', tool_call_id: 'c', content: 'sun' },
          ],
        },
        messages: {
          messages: [
            { role: 'user', content: 'Hello' },
            {
              role: 'assistant',
              content: [
                { type: 'text', text: 'Let me look.' },
                { type: 'tool_use', id: 'c', ...NAMES, input: args },
              ],
            },
            { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content: 'sun' }] },
          ],
        },
        responses: {
          input: [
            { role: 'user', content: 'Hello' },
            { role: 'assistant', content: [{ type: 'output_text', text: 'Let me look.' }] },
            { type: 'function_call', call_id: 'c', ...NAMES, arguments: '{"city":"Rome"}' },
            { type: 'function_call_output', call_id: 'c', output: 'sun' },
          ],
        },
        gemini: {
          contents: [
            { role: 'user', parts: [{ text: 'Hello' }] },
            {
              role: 'model',
              parts: [
                { text: 'Let me look.' },
                { functionCall: { id: 'c', ...NAMES, args }, thoughtSignature: 'c2ln' },
              ],
            },
            {
              role: 'user',
              parts: [{ functionResponse: { id: 'c', ...NAMES, response: { output: 'sun' } } }],
            },
          ],
        },
      },
    } as const

    for (const [title, requests] of Object.entries(CONVERSATIONS))
      it(`is the same in every format: ${title}`, () => {
        const counted = Object.entries(requests).map(([name, request]) => {
          const { text, extra } = promptText(request, 0, true)
          return [name, text, extra]
        })
        const [, text, extra] = counted[0] ?? []
        assert.deepEqual(
          counted,
          counted.map(([name]) => [name, text, extra]),
        )
      })

    it('matches OpenAI’s count: four tokens per message, three before the response', () => {
      const { text, extra } = promptText(CONVERSATIONS['a word'].responses, 0, true)
      assert.equal(countTokens(text) + extra, 8)
    })

    it('includes long texts, also inside calls and tools, as the body reader provides them', async () => {
      const long = 'word '.repeat(150_000)
      const call = { type: 'tool_use', id: 'c', name: 'write', input: { text: long } }
      const tools = [{ name: 'write', description: long, input_schema: SCHEMA }]
      const messages = [
        { role: 'user', content: 'Hello' },
        { role: 'assistant', content: [call] },
      ]
      const { value } = await readJson(Buffer.from(JSON.stringify({ messages, tools })), true)
      const { bytes } = promptText(value as JsonObject, 0, true)
      assert.ok(bytes > 2 * long.length && bytes < 2.1 * long.length, String(bytes))
    })

    it('adds no message overhead to a text that is not a chat', () => {
      for (const request of [{ input: 'Hello' }, { input: ['Hello'] }, { prompt: 'Hello' }])
        assert.equal(promptText(request, 0).extra, 0)
    })
  })

  it('keeps an unescaped sample of bounded size of a response', () => {
    const sample = createTextSample()
    const first = Buffer.from('"a\\n\\u00e9 "')
    sample.take(first, 1, first.length - 1)
    assert.equal(sample.text(), 'a\né ')
    const long = Buffer.from('word '.repeat(10_000))
    sample.take(long, 0, long.length)
    sample.take(first, 1, first.length - 1)
    assert.ok(sample.text().length <= 16 * 1024)
    assert.match(sample.text(), /word$/)
  })
})

for (const engine of oneEngine('sqlite'))
  describe(`a provider that reports no usage, on ${engine}`, () => {
    const relay = suiteRelay(engine)
    let provider: Awaited<ReturnType<typeof startRecorder>>
    before(async () => {
      provider = await startRecorder()
      const message = { role: 'assistant', content: WORDS }
      provider.answers({ body: { choices: [{ index: 0, message, finish_reason: 'stop' }] } })
    })
    after(async () => {
      await provider.close()
    })

    /**
     * The first count waits until the table is loaded, longer than a settlement does: repeat it until the
     * table is loaded.
     */
    async function countedRow(ask: (key: string) => Promise<unknown>) {
      for (let turn = 0; ; turn++) {
        const { id, key } = await relay.newToken()
        await ask(key)
        const row = await relay.rowOf(id)
        assert.equal(row.other.source, 'counted')
        if (row.other.counted_by === 'o200k_base' || turn === 20) return row
      }
    }

    it('has its tokens counted by the table, streamed and not', async () => {
      const whole = await relay.serve('sent', { base_url: provider.url })
      const messages = [{ role: 'user', content: WORDS }]
      const row = await countedRow(key => relay.chat(key, { model: whole.model, messages }))
      assert.equal(row.other.counted_by, 'o200k_base')
      assert.equal(row.prompt_tokens, countTokens(WORDS) + 7)
      assert.equal(row.completion_tokens, countTokens(WORDS))
      const streamed = await relay.serve('sim-words-40-nousage')
      const next = await countedRow(key => relay.chat(key, { model: streamed.model, messages, stream: true }))
      assert.equal(next.other.counted_by, 'o200k_base')
      assert.equal(next.prompt_tokens, countTokens(WORDS) + 7)
    })

    it('has a prompt counted alike for clients of every format, and the token count endpoint agrees', async () => {
      const { model } = await relay.serve('sent', {
        base_url: provider.url,
        setting: { chat_formats: ['openai-chat'] },
      })
      const hello = { role: 'user', content: 'Hello' }
      const contents = [{ parts: [{ text: 'Hello' }] }]
      const asks = {
        '/v1/chat/completions': { model, messages: [hello] },
        '/v1/messages': { model, messages: [hello], max_tokens: 50 },
        '/v1/responses': { model, input: 'Hello' },
        [`/v1beta/models/${model}:generateContent`]: { contents },
      }
      for (const [path, body] of Object.entries(asks)) {
        const row = await countedRow(key => relay.api('POST', path, body, { token: key }))
        assert.deepEqual([path, row.prompt_tokens], [path, 8])
      }
      const { key } = await relay.newToken()
      const count = async (path: string, body: unknown) =>
        (await relay.api('POST', path, body, { token: key })).body
      assert.equal((await count('/v1/messages/count_tokens', { model, messages: [hello] })).input_tokens, 8)
      assert.equal((await count('/v1/responses/input_tokens', { model, input: 'Hello' })).input_tokens, 8)
      const path = `/v1beta/models/${model}:countTokens`
      for (const body of [{ contents }, { generateContentRequest: { contents } }])
        assert.equal((await count(path, body)).totalTokens, 8)
    })

    it('does not get a request refused for its size in bytes if a token count shows that the quota covers it', async () => {
      const { model } = await relay.serve('sent', { base_url: provider.url })
      const content = 'international '.repeat(2_000)
      // 28,000 bytes at 1,000 nanodollars are 14,000 units; there are 4,000 tokens, with an upper bound of
      // 6,000.
      const ask = (key: string, text: string) =>
        relay.chat(key, { model, messages: [{ role: 'user', content: text }], max_tokens: 1 })
      const { key } = await relay.newToken({ remain_quota: 8_000 })
      let reply = await ask(key, content)
      for (let turn = 0; reply.status === 429 && turn < 20; turn++) reply = await ask(key, content)
      assert.equal(reply.status, 200, reply.text)
      const { key: poor } = await relay.newToken({ remain_quota: 500 })
      const refused = await ask(poor, content)
      assert.equal(refused.status, 429)
      assert.equal(refused.body.error.code, 'insufficient_quota')
    })
  })
