import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { retryingFetch } from '../support/client.ts'
import { oneEngine } from '../support/gateway.ts'
import { INPUT_NANOS, OUTPUT_NANOS, suiteRelay } from '../support/relay.ts'

const GEMINI = 24

const WEATHER = {
  type: 'function' as const,
  function: {
    name: 'get_weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}

for (const engine of oneEngine('postgres')) {
  describe(`a client of chat completions with Gemini, on ${engine}`, () => {
    const relay = suiteRelay(engine)

    async function open(sentModel: string) {
      const { model } = await relay.serve(sentModel, { type: GEMINI })
      const { id, key } = await relay.newToken()
      const sdk = new OpenAI({
        apiKey: key,
        baseURL: `${relay.gateway.url}/v1`,
        maxRetries: 0,
        fetch: retryingFetch,
      })
      return { id, model, chat: sdk.chat.completions }
    }

    it('gets the same response streamed and not, and pays the usage that the vendor reports', async () => {
      const { id, model, chat } = await open('sim-small')
      const messages = [{ role: 'user' as const, content: 'How are you?' }]
      const request = { model, messages, reasoning_effort: 'low' as const }
      const whole = await chat.create(request)
      const stream = chat.stream({ ...request, stream_options: { include_usage: true } })
      const streamed = await stream.finalChatCompletion()
      assert.match(whole.choices[0]?.message.content ?? '', /How are you\?/)
      assert.equal(streamed.choices[0]?.message.content, whole.choices[0]?.message.content)
      assert.deepEqual(streamed.usage, whole.usage)
      const { prompt_tokens = 0, completion_tokens = 0, completion_tokens_details } = whole.usage ?? {}
      assert.ok((completion_tokens_details?.reasoning_tokens ?? 0) > 0)
      for (const row of await relay.rowsOf(id, 2)) {
        assert.equal(row.cost, prompt_tokens * INPUT_NANOS + completion_tokens * OUTPUT_NANOS)
      }
    })

    it('completes a tool loop, with the signatures that the vendor requires back', async () => {
      const { model, chat } = await open('sim-small')
      const request = { model, tools: [WEATHER], reasoning_effort: 'low' as const }
      const question = { role: 'user' as const, content: 'Use the tool' }
      const { choices } = await chat.create({ ...request, messages: [question] })
      const [choice] = choices
      assert.equal(choice?.finish_reason, 'tool_calls')
      const [call] = choice?.message.tool_calls ?? []
      assert.ok(call)
      const result = { role: 'tool' as const, tool_call_id: call.id, content: 'rain' }
      const answer = await chat.create({ ...request, messages: [question, choice?.message as never, result] })
      assert.match(answer.choices[0]?.message.content ?? '', /rain/)
    })

    it('and one of Gemini’s get as many choices as they request, from any provider', async () => {
      for (const type of [GEMINI, 1]) {
        const { model } = await relay.serve('sim-small', { type, setting: {} })
        const { id, key } = await relay.newToken()
        const { models } = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: relay.gateway.url } })
        const request = {
          model,
          contents: 'How are you?',
          config: { candidateCount: 2, maxOutputTokens: 90 },
        }
        const whole = await models.generateContent(request)
        assert.equal(whole.candidates?.length, 2)
        const finished = new Set<number>()
        const words = ['', '']
        for await (const { candidates = [] } of await models.generateContentStream(request))
          for (const { index = 0, content, finishReason } of candidates) {
            words[index] += (content?.parts ?? []).map(({ text }) => text ?? '').join('')
            if (finishReason === 'STOP') finished.add(index)
          }
        assert.deepEqual([...finished].toSorted(), [0, 1])
        for (const choiceText of words) assert.match(choiceText, /How are you\?/)
        const [first, second] = await relay.rowsOf(id, 2)
        assert.equal(second?.type, 2)
        assert.equal(second?.cost, first?.cost)
      }
    })

    it('and one that writes Gemini’s fields in snake case get a value of the schema and a tool call', async () => {
      const { parameters } = WEATHER.function
      for (const type of [GEMINI, 1, 34]) {
        const base_url = type === 34 ? `${relay.upstream}/cohere` : relay.upstream
        const { model } = await relay.serve('sim-small', { type, base_url })
        const { key } = await relay.newToken()
        for (const method of ['generateContent', 'streamGenerateContent']) {
          const post = async (body: object) => {
            const contents = [{ parts: [{ text: 'Use get_weather' }] }]
            const path = `/v1beta/models/${model}:${method}`
            const reply = await relay.api('POST', path, { contents, ...body }, { token: key })
            assert.equal(reply.status, 200, reply.text)
            return [reply.body].flat().flatMap(({ candidates = [] }) => candidates[0]?.content?.parts ?? [])
          }
          const generation_config = {
            response_mime_type: 'application/json',
            response_json_schema: parameters,
          }
          const parts = await post({ generation_config })
          assert.deepEqual(Object.keys(JSON.parse(parts.map(({ text = '' }) => text).join(''))), ['city'])
          const declared = { name: 'get_weather', parameters_json_schema: parameters }
          const called = await post({ tools: [{ function_declarations: [declared] }] })
          const { functionCall } = called.find(part => part.functionCall)
          assert.deepEqual([functionCall.name, Object.keys(functionCall.args)], ['get_weather', ['city']])
        }
      }
    })

    it('gets the error of a failure before and inside the stream', async () => {
      const failing = await open('sim-status-429')
      const messages = [{ role: 'user' as const, content: 'Hi' }]
      await assert.rejects(failing.chat.create({ model: failing.model, messages }), { status: 429 })
      const breaking = await open('sim-error-in-stream')
      const stream = breaking.chat.stream({ model: breaking.model, messages })
      await assert.rejects(stream.finalChatCompletion())
    })
  })
}
