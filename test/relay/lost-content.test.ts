import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { ApiError, GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { retryingFetch } from '../support/client.ts'
import { oneEngine } from '../support/gateway.ts'
import { until } from '../support/process.ts'
import { suiteRelay } from '../support/relay.ts'

const SOUND = Buffer.from('RIFF of a short sound').toString('base64')
const LOSSY = { 'x-sluice-strict': 'false' }
const STRICT = { 'x-sluice-strict': 'true' }
const WARNING = /^messages\[0\]\.content\[1\]: media of the type audio .* was left out$/
const ADDRESS = 'https://example.com/a.pdf'

type Fields = Readonly<Record<string, unknown>>
type Row = {
  readonly other: string
  readonly content: string
  readonly quota: number
  readonly channel: number
}

const audioRequestOf = (model: string, data = SOUND) => ({
  model,
  max_tokens: 100,
  messages: [
    {
      role: 'user' as const,
      content: [
        { type: 'text' as const, text: 'What is said?' },
        { type: 'input_audio' as const, input_audio: { data, format: 'wav' as const } },
      ],
    },
  ],
})

for (const engine of oneEngine('sqlite'))
  describe(`content that a provider’s format cannot express, on ${engine} (docs/reference/relay-api.md: Warnings and strict mode)`, () => {
    const relay = suiteRelay(engine)
    const claude = () => ({ type: 14, base_url: `${relay.upstream}/anthropic` })
    const serveClaude = () => relay.serve('sim-claude', claude())
    const openaiOf = (apiKey: string) =>
      new OpenAI({ apiKey, baseURL: `${relay.gateway.url}/v1`, maxRetries: 0, fetch: retryingFetch })
    const anthropicOf = (apiKey: string) =>
      new Anthropic({ apiKey, baseURL: relay.gateway.url, maxRetries: 0, fetch: retryingFetch })

    async function refusalOf(asking: PromiseLike<unknown>) {
      const error = await Promise.resolve(asking).then(
        () => assert.fail('the request was not refused'),
        (thrown: unknown) => thrown,
      )
      assert.ok(error instanceof OpenAI.BadRequestError, String(error))
      return error
    }

    it('is rejected before anything is sent, held or charged, streamed and not', async () => {
      const { model } = await serveClaude()
      const { id, key } = await relay.newToken()
      const before = await relay.seenInAll()
      const request = audioRequestOf(model)
      for (const stream of [false, true]) {
        const asking = openaiOf(key).chat.completions.create({ ...request, stream })
        const { status, code, param, type, message } = await refusalOf(asking)
        assert.deepEqual(
          [status, code, param, type],
          [400, 'unsupported_content', 'messages[0].content[1]', 'invalid_request_error'],
        )
        assert.match(message, /messages\[0\]\.content\[1\]: media of the type audio .*x-sluice-strict: false/)
      }
      assert.equal(await relay.seenInAll(), before)
      const token = await relay.must(relay.api('GET', `/api/token/${id}`))
      assert.deepEqual([token.used_quota, token.held_quota ?? 0], [0, 0])
      const rows = await until('two rows', async () => {
        const list: Row[] = (await relay.must(relay.api('GET', `/api/log/walk?token_id=${id}&limit=9`))).rows
        return list.length === 2 ? list : undefined
      })
      for (const { other, channel, quota } of rows) {
        assert.deepEqual([channel, quota], [0, 0])
        const { rejected, error_code, param, status } = JSON.parse(other)
        assert.deepEqual(
          [rejected, error_code, param, status],
          [true, 'unsupported_content', 'messages[0].content[1]', 400],
        )
      }
    })

    it('is left out with a warning if the client accepts that, streamed and not', async () => {
      const { model } = await serveClaude()
      const { id, key } = await relay.newToken()
      for (const stream of [false, true]) {
        const reply = await relay.chat(key, { ...audioRequestOf(model), stream }, LOSSY)
        assert.equal(reply.status, 200, reply.text)
        assert.match(reply.headers.get('x-sluice-warnings') ?? '', WARNING)
        assert.match(reply.text, /What/)
      }
      for (const { other } of await relay.rowsOf(id, 2)) assert.match(other.warnings.join(), WARNING)
    })

    it('is left out for all clients but strict ones if the setting allow_lossy is on', async () => {
      const { model } = await serveClaude()
      const { key } = await relay.newToken()
      assert.equal((await relay.chat(key, audioRequestOf(model))).status, 400)
      await relay.set({ allow_lossy: true })
      try {
        const { status, headers } = await relay.chat(key, audioRequestOf(model))
        assert.equal(status, 200)
        assert.match(headers.get('x-sluice-warnings') ?? '', WARNING)
        const strict = await relay.chat(key, audioRequestOf(model), STRICT)
        assert.deepEqual([strict.status, strict.body.error.code], [400, 'unsupported_content'])
        assert.equal(strict.body.error.param, 'messages[0].content[1]')
      } finally {
        await relay.set({ allow_lossy: null })
      }
      assert.equal((await relay.chat(key, audioRequestOf(model))).status, 400)
    })

    it('goes to the next channel that accepts it, and the others stay in use', async () => {
      const { model } = await relay.serve(['sim-claude', 'sim-claude'], claude())
      await relay.addChannel({
        name: 'hearing',
        models: [model],
        model_mapping: { [model]: 'sim-small' },
        priority: 1,
      })
      const { id, key } = await relay.newToken()
      const sdk = openaiOf(key)
      for (const headers of [{}, STRICT]) {
        assert.equal(
          (await sdk.chat.completions.create(audioRequestOf(model), { headers })).model,
          'sim-small',
        )
        const stream = await sdk.chat.completions.create(
          { ...audioRequestOf(model), stream: true },
          { headers },
        )
        for await (const chunk of stream) assert.equal(chunk.model, 'sim-small')
      }
      for (const { other } of await relay.rowsOf(id, 4)) {
        assert.deepEqual(
          other.trace.attempts.map(({ status }: { status: number }) => status),
          [200],
        )
        assert.deepEqual(
          other.trace.passed_over.map(({ reason }: { reason: string }) => reason),
          ['not_offered', 'not_offered'],
        )
      }
      const text = await sdk.chat.completions.create({
        ...audioRequestOf(model),
        messages: [{ role: 'user', content: 'Hi' }],
      })
      assert.equal(text.model, 'sim-claude')
    })

    it('is no reason for a rejection if a channel that accepts it fails or is not available', async () => {
      const { model } = await serveClaude()
      const hearing = await relay.addChannel({
        name: 'hearing',
        models: [model],
        model_mapping: { [model]: 'sim-status-500' },
        priority: 1,
      })
      const { key } = await relay.newToken()
      const failed = await relay.chat(key, audioRequestOf(model))
      assert.deepEqual([failed.status, failed.body.error.code], [502, 'upstream_error'])
      const cooling = await until('a cooldown', async () => {
        const reply = await relay.chat(key, audioRequestOf(model))
        return reply.status === 502 ? undefined : reply
      })
      assert.deepEqual([cooling.status, cooling.body.error.code], [503, 'no_channel_available'])
      assert.ok(Number(cooling.headers.get('retry-after')) > 0)
      await relay.must(relay.api('PUT', '/api/channel/', { id: hearing, status: 2 }))
      const rejected = await relay.chat(key, audioRequestOf(model))
      assert.deepEqual([rejected.status, rejected.body.error.code], [400, 'unsupported_content'])
    })

    it('goes to the same channel in another of its formats, for this request only', async () => {
      const sentModel = `sim-words-${engine === 'sqlite' ? 3 : 4}`
      const { model } = await relay.serve(sentModel)
      const { key } = await relay.newToken()
      const sdk = anthropicOf(key)
      const ask = (content: Anthropic.ContentBlockParam[]) => ({
        model,
        max_tokens: 100,
        messages: [{ role: 'user' as const, content }],
      })
      const document = ask([
        { type: 'document', source: { type: 'url', url: ADDRESS } },
        { type: 'text', text: 'Hi' },
      ])
      assert.equal((await sdk.messages.create(document)).content[0]?.type, 'text')
      assert.equal((await sdk.messages.stream(document).finalMessage()).content[0]?.type, 'text')
      await sdk.messages.create(ask([{ type: 'text', text: 'Hi' }]))
      const paths = (await relay.seen(sentModel)).map(each => (each as unknown as { path: string }).path)
      assert.deepEqual(paths, ['/v1/responses', '/v1/responses', '/v1/chat/completions'])
    })

    it('is recognized in a large request, which is translated on a thread', async () => {
      const { model } = await serveClaude()
      const { key } = await relay.newToken({ unlimited_quota: true })
      const { status, body } = await relay.chat(key, audioRequestOf(model, SOUND.repeat(30_000)))
      assert.deepEqual([status, body.error.code], [400, 'unsupported_content'])
      assert.equal(body.error.param, 'messages[0].content[1]')
    })

    it('is named as the client sent it, in every format', async () => {
      const { model } = await relay.serve('sim-small', {
        type: 34,
        base_url: `${relay.upstream}/cohere`,
        setting: { chat_formats: ['cohere'] },
      })
      const { key } = await relay.newToken()
      const call = (id: string) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })
      const file = {
        type: 'document',
        source: { type: 'base64', media_type: 'application/pdf', data: SOUND },
      }
      const cases: [path: string, body: Fields, param: string][] = [
        [
          '/v1/chat/completions',
          {
            ...audioRequestOf(model),
            messages: [
              { role: 'user', content: 'Hi' },
              { role: 'assistant', tool_calls: [call('a'), call('b')] },
              { role: 'tool', tool_call_id: 'a', content: 'x' },
              { role: 'tool', tool_call_id: 'b', content: 'y' },
              ...audioRequestOf(model).messages,
            ],
          },
          'messages[4].content[1]',
        ],
        [
          '/v1/messages',
          { model, max_tokens: 9, system: 'Be brief.', messages: [{ role: 'user', content: [file] }] },
          'messages[0].content[0]',
        ],
        [
          '/v1/messages',
          {
            model,
            max_tokens: 9,
            messages: [
              { role: 'user', content: 'Hi' },
              { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: {} }] },
              {
                role: 'user',
                content: [
                  { type: 'text', text: 'Here it is.' },
                  {
                    type: 'tool_result',
                    tool_use_id: 'a',
                    content: [
                      { type: 'text', text: 'x' },
                      {
                        type: 'search_result',
                        source: 's',
                        title: 't',
                        content: [{ type: 'text', text: 'u' }],
                      },
                    ],
                  },
                ],
              },
            ],
          },
          'messages[2].content[1].content[1]',
        ],
        [
          '/v1/responses',
          {
            model,
            instructions: 'Be brief.',
            input: [
              { role: 'user', content: 'Hi' },
              { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' },
              {
                type: 'function_call_output',
                call_id: 'a',
                output: [{ type: 'input_file', file_url: ADDRESS }],
              },
            ],
          },
          'input[2].output[0]',
        ],
        [
          `/v1beta/models/${model}:generateContent`,
          {
            system_instruction: { parts: [{ text: 'Be brief.' }] },
            contents: [{ parts: [{ text: 'Hi' }, { inline_data: { mime_type: 'audio/wav', data: SOUND } }] }],
          },
          'contents[0].parts[1]',
        ],
      ]
      for (const [path, body, param] of cases) {
        const { status, body: answer, text } = await relay.api('POST', path, body, { token: key })
        assert.equal(status, 400, text)
        const { message, code, param: errorParam } = answer.error
        assert.ok(message.startsWith(`${param}: `), message)
        if (code === 'unsupported_content') assert.equal(errorParam, param)
        const warned = await relay.api('POST', path, body, { token: key, headers: LOSSY })
        assert.equal(warned.status, 200, warned.text)
        assert.ok((warned.headers.get('x-sluice-warnings') ?? '').includes(`${param}: `))
      }
      const google = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: relay.gateway.url } })
      const contents = [{ parts: [{ inlineData: { mimeType: 'audio/wav', data: SOUND } }] }]
      await assert.rejects(google.models.generateContent({ model, contents }), (error: unknown) => {
        assert.ok(error instanceof ApiError)
        assert.match(error.message, /contents\[0\]\.parts\[0\]: media of the type audio/)
        return error.status === 400
      })
    })

    it('does not include the tools that another vendor ran for earlier answers: they are a warning', async () => {
      const { model } = await relay.serve('sim-small')
      const { key } = await relay.newToken()
      const search = { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'q' } }
      const searchResult = { type: 'web_search_tool_result', tool_use_id: 's', content: [] }
      const messages = [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: [search, searchResult, { type: 'text', text: 'Hello.' }] },
        { role: 'user', content: 'Go on' },
      ]
      const reply = await relay.api(
        'POST',
        '/v1/messages',
        { model, max_tokens: 9, messages },
        { token: key },
      )
      assert.equal(reply.status, 200, reply.text)
      assert.match(
        reply.headers.get('x-sluice-warnings') ?? '',
        /messages\[1\]\.content\[0\]: .*server_tool_use/,
      )
    })
  })
