import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { bedrock } from '../../src/chat/anthropic/bedrock/format.ts'
import { cohere } from '../../src/chat/cohere/format.ts'
import type { EncodeOptions, IdsAndClock, Outbound } from '../../src/chat/hub/format.ts'
import type { ChatAnswer, ChatRequest } from '../../src/chat/hub/hub.ts'
import { ollama } from '../../src/chat/ollama/format.ts'
import { openaiChat } from '../../src/chat/openai/chat-completions/format.ts'
import { totalInput, totalOutput } from '../../src/domain/usage.ts'
import { signAws } from '../../src/providers/sigv4.ts'
import { mistral } from '../../src/providers/vendors/mistral.ts'
import { answerOf } from '../support/gathered-answer.ts'

const idsAndClock: IdsAndClock = { newId: prefix => `${prefix}1`, nowS: () => 0 }

let simulator: Simulator

before(async () => {
  simulator = await startSimulator()
})
after(() => simulator.close())

/** A vendor: its format and its path in the simulator. */
type Vendor = {
  readonly name: string
  readonly format: Outbound
  readonly options?: EncodeOptions
  readonly path: (stream: boolean) => string
}

const VENDORS: readonly Vendor[] = [
  {
    name: 'Bedrock',
    format: bedrock,
    path: stream => `/bedrock/model/us.m-v1%3A0/converse${stream ? '-stream' : ''}`,
  },
  { name: 'Cohere', format: cohere, path: () => '/cohere/v2/chat' },
  { name: 'Ollama', format: ollama, path: () => '/ollama/api/chat' },
  {
    name: 'Mistral',
    format: openaiChat,
    options: mistral.encoding,
    path: () => '/mistral/v1/chat/completions',
  },
]

const weather = (name: string) =>
  ({
    type: 'function',
    name,
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  }) as const

const createRequest = (text: string, more: Partial<ChatRequest> = {}): ChatRequest => ({
  model: 'm',
  stream: false,
  messages: [{ role: 'user', content: [{ type: 'text', text }] }],
  ...more,
})

for (const { name, format, options, path } of VENDORS) {
  async function send(request: ChatRequest) {
    const { body } = format.encodeRequest(request, options)
    return fetch(`${simulator.url}${path(request.stream)}`, {
      method: 'POST',
      headers: { authorization: 'Bearer k', 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  }

  async function ask(request: ChatRequest): Promise<ChatAnswer> {
    const response = await send(request)
    const bytes = Buffer.from(await response.arrayBuffer())
    assert.equal(response.status, 200, bytes.toString())
    if (!request.stream) {
      const answer = format.decodeAnswer(JSON.parse(bytes.toString()), { idsAndClock })
      assert.ok(!('error' in answer), JSON.stringify(answer))
      return answer
    }
    const decoder = format.createStreamDecoder({ idsAndClock })
    const gathered = answerOf([...decoder.push(bytes), ...decoder.end()])
    assert.ok('answer' in gathered, JSON.stringify(gathered))
    return gathered.answer
  }

  const textOf = ({ choices: [choice] }: ChatAnswer) =>
    (choice?.parts ?? []).map(part => (part.type === 'text' ? part.text : '')).join('')
  const callsOf = ({ choices: [choice] }: ChatAnswer) =>
    (choice?.parts ?? []).flatMap(part => (part.type === 'toolCall' ? [part] : []))

  describe(`the simulated ${name}`, () => {
    it('returns and counts the same, streamed and not', async () => {
      const [whole, streamed] = [
        await ask(createRequest('Hello')),
        await ask(createRequest('Hello', { stream: true })),
      ]
      assert.match(textOf(whole), /You wrote: "Hello"/)
      assert.equal(textOf(streamed), textOf(whole))
      assert.equal(whole.choices[0]?.stop.reason, 'stop')
      assert.equal(streamed.choices[0]?.stop.reason, 'stop')
      assert.ok(whole.usage && totalInput(whole.usage) > 0 && totalOutput(whole.usage) > 10)
      assert.deepEqual(streamed.usage, whole.usage)
    })

    it('calls several tools at once, and responds to their results', async () => {
      const tools = [weather('rain'), weather('wind')]
      for (const stream of [false, true]) {
        const request = createRequest('Use the tools rain and wind', { stream, tools })
        const answer = await ask(request)
        const calls = callsOf(answer)
        assert.deepEqual(
          calls.map(call => [call.name, Object.keys(JSON.parse(call.arguments))]),
          [
            ['rain', ['city']],
            ['wind', ['city']],
          ],
        )
        assert.equal(answer.choices[0]?.stop.reason, 'tools')
        const ids = ['call_a', 'call_b']
        const next = await ask({
          ...request,
          messages: [
            ...request.messages,
            { role: 'assistant', content: calls.map((call, at) => ({ ...call, id: ids[at] ?? '' })) },
            {
              role: 'tool',
              content: ids.map(callId => ({
                type: 'toolResult',
                callId,
                content: [{ type: 'text', text: 'It is dry.' }],
              })),
            },
          ],
        })
        assert.match(textOf(next), /The tool answered: .*It is dry\./)
      }
    })

    it('stops at the limit, and reports it', async () => {
      for (const stream of [false, true]) {
        const answer = await ask(createRequest('Hello', { stream, maxTokens: 3 }))
        assert.equal(answer.choices[0]?.stop.reason, 'length')
      }
    })

    it('has its own error format, which the gateway parses', async () => {
      const response = await fetch(`${simulator.url}${path(false)}`, {
        method: 'POST',
        headers: { authorization: 'Bearer k' },
        body: 'no JSON',
      })
      const error = format.decodeError({ status: response.status, body: await response.json() })
      assert.deepEqual([error.kind, /JSON/.test(error.message)], ['invalid', true])
    })
  })
}

describe('the simulated Bedrock', () => {
  it('accepts a signature in place of a key, and refuses an invalid one', async () => {
    const url = new URL(`${simulator.url}/bedrock/model/m%3A0/converse`)
    const body = Buffer.from(JSON.stringify(bedrock.encodeRequest(createRequest('Hello')).body))
    const headers = { 'content-type': 'application/json' }
    const credentials = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'secret' }
    const request = { method: 'POST', url, headers, body, at: new Date(0) } as const
    const proof = await signAws(credentials, { service: 'bedrock', region: 'eu-west-1' }, request)
    const send = (more: Record<string, string>) =>
      fetch(url, { method: 'POST', headers: { ...headers, ...more }, body })
    assert.equal((await send(proof)).status, 200)
    assert.equal((await send({ authorization: 'AWS4-HMAC-SHA256 nothing' })).status, 401)
  })
})

describe('the simulated Mistral', () => {
  it('refuses fields of the OpenAI format that it does not support', async () => {
    const { body } = openaiChat.encodeRequest(createRequest('Hello', { seed: 1 }))
    const response = await fetch(`${simulator.url}/mistral/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer k' },
      body: JSON.stringify(body),
    })
    const error = openaiChat.decodeError({ status: response.status, body: await response.json() })
    assert.equal(error.kind, 'invalid')
  })
})
