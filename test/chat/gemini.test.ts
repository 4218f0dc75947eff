import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { GoogleGenAI } from '@google/genai'
import { anthropic } from '../../src/chat/anthropic/messages/format.ts'
import { gemini } from '../../src/chat/gemini/format.ts'
import { eventsOf } from '../../src/chat/hub/answer.ts'
import type { Format, IdsAndClock } from '../../src/chat/hub/format.ts'
import type { ChatAnswer, ChatRequest, Part, TokenLogprob } from '../../src/chat/hub/hub.ts'
import { hasForeignSignature } from '../../src/chat/hub/signature.ts'
import { openaiChat } from '../../src/chat/openai/chat-completions/format.ts'
import { decodeEmbedding, encodeVectors, geminiEmbedding } from '../../src/media/gemini-embedding.ts'
import { answerOf } from '../support/gathered-answer.ts'

let ids = 0
const idsAndClock: IdsAndClock = { newId: prefix => `${prefix}${++ids}`, nowS: () => 1_700_000_000 }

function read(format: Format, body: unknown, model = 'gemini-2.5-flash'): ChatRequest {
  const decoded = format.decodeRequest(body, { model, stream: false })
  assert.ok('request' in decoded, JSON.stringify(decoded))
  return decoded.request
}

type Content = { role: string; parts: Record<string, Record<string, unknown>>[] }
type Body = { contents: Content[]; [field: string]: unknown }

function send(body: object, model = 'gemini-2.5-flash') {
  const request = read(openaiChat, { model, messages: [{ role: 'user', content: 'Hi' }], ...body })
  const { body: encodedBody, warnings } = gemini.encodeRequest(request)
  return { body: encodedBody as Body, warned: warnings.map(({ field }) => field) }
}

const tool = (parameters: object, more: object = {}) => ({
  type: 'function',
  function: { name: 'f', parameters, ...more },
})

const call = (id: string, name: string) => ({
  id,
  type: 'function',
  function: { name, arguments: '{"x":1}' },
})

describe('a chat completion sent to Gemini', () => {
  it('groups tool results after their calls, each with the name of its tool and as an object', () => {
    const { body, warned } = send({
      messages: [
        { role: 'user', content: 'Go' },
        { role: 'assistant', content: null, tool_calls: [call('c1', 'a'), call('c2', 'b')] },
        { role: 'tool', tool_call_id: 'c1', content: 'rain' },
        { role: 'tool', tool_call_id: 'c2', content: '{"degrees":7}' },
      ],
    })
    assert.deepEqual(warned, [])
    assert.deepEqual(body.contents.slice(1), [
      {
        role: 'model',
        parts: [
          { functionCall: { name: 'a', args: { x: 1 }, id: 'c1' } },
          { functionCall: { name: 'b', args: { x: 1 }, id: 'c2' } },
        ],
      },
      {
        role: 'user',
        parts: [
          { functionResponse: { name: 'a', response: { output: 'rain' }, id: 'c1' } },
          { functionResponse: { name: 'b', response: { degrees: 7 }, id: 'c2' } },
        ],
      },
    ])
  })

  it('adds a signature to the first call of a turn from another vendor, for models that require one', () => {
    const messages = [
      { role: 'user', content: 'Go' },
      { role: 'assistant', content: null, tool_calls: [call('c1', 'a'), call('c2', 'b')] },
      { role: 'tool', tool_call_id: 'c1', content: '' },
      { role: 'tool', tool_call_id: 'c2', content: '' },
    ]
    const proofs = (model: string) =>
      send({ messages }, model).body.contents[1]?.parts.map(part => part.thoughtSignature)
    assert.deepEqual(proofs('gemini-3-pro-preview'), ['skip_thought_signature_validator', undefined])
    assert.deepEqual(proofs('gemini-2.5-pro'), [undefined, undefined])
  })

  it('adapts schemas and warns of the rules that it cannot express', () => {
    const { body, warned } = send({
      tools: [
        tool({
          $schema: 'https://json-schema.org/draft/2020-12/schema',
          type: 'object',
          properties: {
            kind: { const: 'a' },
            mail: { type: 'string', format: 'email' },
            size: { type: 'number', exclusiveMinimum: 0 },
            when: { allOf: [{ type: 'string' }, { format: 'date-time' }] },
          },
          additionalProperties: false,
        }),
      ],
    })
    assert.deepEqual(body.tools, [
      {
        functionDeclarations: [
          {
            name: 'f',
            parametersJsonSchema: {
              type: 'object',
              properties: {
                kind: { enum: ['a'] },
                mail: { type: 'string' },
                size: { type: 'number' },
                when: { type: 'string', format: 'date-time' },
              },
              additionalProperties: false,
            },
          },
        ],
      },
    ])
    assert.deepEqual(warned, [
      'tools[0].parameters.properties.format',
      'tools[0].parameters.properties.exclusiveMinimum',
    ])
  })

  it('leaves out the schema of a tool without parameters', () => {
    const { body } = send({ tools: [tool({ type: 'object', properties: {} })] })
    assert.deepEqual(body.tools, [{ functionDeclarations: [{ name: 'f' }] }])
  })

  it('sets the reasoning as a level or as a token budget, depending on the model', () => {
    const thinking = (model: string, body: object) =>
      (send(body, model).body.generationConfig as { thinkingConfig?: unknown } | undefined)?.thinkingConfig
    const high = { reasoning_effort: 'high' }
    assert.deepEqual(thinking('gemini-3-pro-preview', high), { includeThoughts: true, thinkingLevel: 'HIGH' })
    assert.deepEqual(thinking('gemini-2.5-flash', high), { includeThoughts: true, thinkingBudget: 16_384 })
    assert.deepEqual(thinking('gemini-2.5-flash', { ...high, max_tokens: 1_000 }), {
      includeThoughts: true,
      thinkingBudget: 500,
    })
    assert.deepEqual(thinking('gemini-2.5-flash', { reasoning_effort: 'none' }), { thinkingBudget: 0 })
    assert.deepEqual(thinking('gemini-2.5-pro', { reasoning_effort: 'none' }), { thinkingBudget: 128 })
    assert.equal(thinking('gemini-2.0-flash', high), undefined)
    assert.deepEqual(send(high, 'gemini-2.0-flash').warned, ['reasoning'])
  })

  it('requests no more reasoning than the model accepts, even if another vendor’s model accepts more', () => {
    const thinking = (budget_tokens: number, model: string) => {
      const messages = [{ role: 'user', content: 'Hi' }]
      const request = read(anthropic, {
        model,
        messages,
        max_tokens: 64_000,
        thinking: { type: 'enabled', budget_tokens },
      })
      const { body, warnings } = gemini.encodeRequest({ ...request, model })
      const config = body.generationConfig as { thinkingConfig: { thinkingBudget: number } }
      return [config.thinkingConfig.thinkingBudget, warnings.map(({ field }) => field).join()]
    }
    assert.deepEqual(thinking(31_999, 'gemini-2.5-flash'), [24_576, 'reasoning.budget'])
    assert.deepEqual(thinking(31_999, 'gemini-2.5-pro'), [31_999, ''])
  })

  it('requests no more output than the model supports', () => {
    const limit = (model: string) => {
      const { body, warned } = send({ max_tokens: 100_000 }, model)
      return [(body.generationConfig as { maxOutputTokens: number }).maxOutputTokens, warned.join()]
    }
    assert.deepEqual(limit('gemini-2.5-flash'), [65_536, 'max_tokens'])
    assert.deepEqual(limit('gemini-2.0-flash'), [8_192, 'max_tokens'])
    assert.deepEqual(limit('gemini-flash-latest'), [100_000, ''])
  })

  it('derives the type of an image at a URL from its extension', () => {
    const typeOf = (url: string) => {
      const { body } = send({
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
      })
      return body.contents[0]?.parts[0]?.fileData?.mimeType
    }
    assert.equal(typeOf('https://pictures.example/a.PNG?size=2'), 'image/png')
    assert.equal(typeOf('https://pictures.example/a.webp'), 'image/webp')
    assert.equal(typeOf('https://pictures.example/a'), 'image/jpeg')
  })

  it('adds a user turn to a request that has instructions only', () => {
    const { body, warned } = send({ messages: [{ role: 'system', content: 'Be brief.' }] })
    assert.deepEqual(body.contents, [{ role: 'user', parts: [{ text: ' ' }] }])
    assert.deepEqual(warned, ['messages'])
  })

  it('restricts the tool choice to names, and sends none without tools', () => {
    const choose = (tool_choice: unknown, tools?: unknown) => send({ tool_choice, tools }).body.toolConfig
    const namedTool = { type: 'function', function: { name: 'f' } }
    assert.deepEqual(choose(namedTool, [tool({})]), {
      functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['f'] },
    })
    assert.equal(choose('auto'), undefined)
  })
})

describe('a request in Gemini’s format', () => {
  const HI = { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] }

  it('is the same in camel and snake case, and with single values in place of lists', () => {
    const camel = read(gemini, {
      contents: [{ role: 'user', parts: [{ inlineData: { mimeType: 'image/png', data: 'AA==' } }] }],
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      generationConfig: { maxOutputTokens: 7, responseMimeType: 'application/json' },
      tools: [
        {
          functionDeclarations: [
            { name: 'f', parameters: { type: 'OBJECT', properties: { a_b: { type: 'STRING' } } } },
          ],
        },
      ],
    })
    const snake = read(gemini, {
      contents: { role: 'user', parts: { inline_data: { mime_type: 'image/png', data: 'AA==' } } },
      system_instruction: { parts: { text: 'Be brief.' } },
      generation_config: { max_output_tokens: 7, response_mime_type: 'application/json' },
      tools: {
        function_declarations: {
          name: 'f',
          parameters: { type: 'OBJECT', properties: { a_b: { type: 'STRING' } } },
        },
      },
    })
    assert.deepEqual(snake, camel)
    assert.deepEqual(camel.output, { type: 'json' })
    assert.equal(camel.maxTokens, 7)
  })

  it('converts the vendor’s schema to JSON schema', () => {
    const request = read(gemini, {
      ...HI,
      generationConfig: {
        responseMimeType: 'application/json',
        responseSchema: {
          type: 'OBJECT',
          properties: {
            b: { type: 'ARRAY', items: { type: 'STRING', nullable: true }, minItems: '1' },
            a: { type: 'INTEGER' },
          },
          propertyOrdering: ['a', 'b'],
        },
      },
    })
    assert.equal(
      request.output?.type === 'schema' && JSON.stringify(request.output.schema),
      '{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"type":["string","null"]},"minItems":1}}}',
    )
  })

  it('matches a result without an id to its call', () => {
    const result = (name: string) => ({ functionResponse: { name, response: { output: name } } })
    const request = read(gemini, {
      contents: [
        { role: 'user', parts: [{ text: 'Go' }] },
        {
          role: 'model',
          parts: [{ functionCall: { name: 'a', args: {} } }, { functionCall: { name: 'b' } }],
        },
        { role: 'function', parts: [result('b'), result('a')] },
      ],
    })
    const { messages } = openaiChat.encodeRequest(request).body as { messages: Record<string, unknown>[] }
    assert.deepEqual(
      messages.slice(2).map(({ tool_call_id, content }) => [tool_call_id, content]),
      [
        ['call_2', 'b'],
        ['call_1', 'a'],
      ],
    )
  })

  it('enables thinking in the way that each generation of Claude supports', () => {
    const thinking = (model: string, thinkingBudget: number) => {
      const request = read(gemini, { ...HI, generationConfig: { thinkingConfig: { thinkingBudget } } }, model)
      const { thinking: how, output_config: config } = anthropic.encodeRequest(request).body
      return [how, config]
    }
    const adaptive = { type: 'adaptive', display: 'omitted' }
    assert.deepEqual(thinking('claude-sonnet-4-5', -1), [
      { type: 'enabled', budget_tokens: 16_384 },
      undefined,
    ])
    assert.deepEqual(thinking('claude-sonnet-4-6', -1), [adaptive, undefined])
    assert.deepEqual(thinking('claude-opus-4-7', 8_000), [adaptive, { effort: 'high' }])
  })

  it('keeps Gemini-only fields for Gemini, and warns that other vendors do not support them', () => {
    const body = {
      ...HI,
      cachedContent: 'cachedContents/1',
      safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
      generationConfig: { speechConfig: { voiceConfig: {} }, mediaResolution: 'MEDIA_RESOLUTION_LOW' },
      tools: [{ googleSearch: {} }],
      toolConfig: { retrievalConfig: { languageCode: 'de' } },
    }
    const request = read(gemini, body)
    assert.deepEqual(gemini.encodeRequest(request), { body, warnings: [] })
    const warned = openaiChat.encodeRequest(request).warnings.map(({ field }) => field)
    const config = ['generationConfig.mediaResolution', 'toolConfig.retrievalConfig']
    for (const field of ['cachedContent', ...config, 'tools[0]']) {
      assert.ok(warned.includes(field), `${field} of ${warned}`)
    }
  })

  it('requests the usual service tier of any vendor by its name there', () => {
    const tierOf = (serviceTier: string, format: Format) => {
      const request = read(gemini, { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }], serviceTier })
      const { body, warnings } = format.encodeRequest(request)
      assert.deepEqual(warnings, [])
      const { serviceTier: own, service_tier = own } = body as Record<string, unknown>
      return service_tier
    }
    assert.equal(tierOf('standard', openaiChat), 'default')
    assert.equal(tierOf('standard', anthropic), 'standard_only')
    assert.equal(tierOf('standard', gemini), 'standard')
    assert.equal(tierOf('unspecified', openaiChat), undefined)
    assert.equal(tierOf('flex', openaiChat), 'flex')
  })

  it('is rejected with the name of the invalid field', () => {
    const fault = (body: object) => {
      const decoded = gemini.decodeRequest(body, { model: 'm' })
      return 'fault' in decoded ? decoded.fault.param : undefined
    }
    assert.equal(fault({ contents: [] }), 'contents')
    assert.equal(fault({ contents: [{ role: 'nobody', parts: [] }] }), 'contents[0].role')
    assert.equal(
      fault({ ...HI, generationConfig: { maxOutputTokens: 0 } }),
      'generationConfig.maxOutputTokens',
    )
    assert.equal(
      fault({ ...HI, toolConfig: { functionCallingConfig: { mode: 'X' } } }),
      'toolConfig.functionCallingConfig.mode',
    )
  })
})

describe('content signed by another vendor, for a client of Gemini', () => {
  const decoder = anthropic.createStreamDecoder({ idsAndClock })
  const event = (data: { type: string }) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
  const events = [
    {
      type: 'message_start',
      message: { id: 'm', model: 'claude', usage: { input_tokens: 1, output_tokens: 1 } },
    },
    {
      type: 'content_block_start',
      index: 0,
      content_block: { type: 'thinking', thinking: 'hm', signature: '' },
    },
    { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'c2ln' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
    { type: 'message_stop' },
  ]
  const decodedEvents = [...decoder.push(Buffer.from(events.map(event).join(''))), ...decoder.end()]

  it('is encoded as bytes, as clients expect signatures, and is restored for its own vendor', () => {
    const gathered = answerOf(decodedEvents)
    assert.ok('answer' in gathered)
    const { candidates } = gemini.encodeAnswer(gathered.answer, { idsAndClock }) as {
      candidates: { content: { parts: { thoughtSignature: string }[] } }[]
    }
    const [part] = candidates[0]?.content.parts ?? []
    assert.ok(part)
    const bytes = Buffer.from(part.thoughtSignature, 'base64')
    assert.equal(bytes.toString('base64'), part.thoughtSignature)
    const turn = {
      contents: [
        { role: 'user', parts: [{ text: 'Hi' }] },
        { role: 'model', parts: [part] },
        { role: 'user', parts: [{ text: 'And?' }] },
      ],
    }
    assert.ok(hasForeignSignature(Buffer.from(JSON.stringify(turn))))
    const request = read(gemini, turn, 'claude-sonnet-4-5')
    const { messages } = anthropic.encodeRequest(request).body as { messages: { content: unknown }[] }
    assert.deepEqual(messages[1]?.content, [{ type: 'thinking', thinking: 'hm', signature: 'c2ln' }])
    const { body, warnings } = gemini.encodeRequest(request)
    assert.equal(JSON.stringify(body).includes(part.thoughtSignature), false)
    assert.equal(warnings.length, 1)
  })
})

describe('a chat of Google’s SDK, which keeps each chunk of a stream as a content of its own', () => {
  /** The second request of a chat whose first answer was streamed. */
  async function secondRequest(parts: readonly Part[], logprobs?: readonly TokenLogprob[]) {
    const stop = { reason: 'stop' } as const
    const answer: ChatAnswer = {
      id: 'a',
      model: 'm',
      choices: [{ parts, stop, ...(logprobs && { logprobs }) }],
    }
    const encoder = gemini.createStreamEncoder({ idsAndClock })
    // Delta by delta, as vendors stream.
    const bytes = eventsOf(answer).flatMap(event => {
      const isThought = event.type === 'delta' && event.text === 'Let me see.'
      const pieces = isThought ? ['Let me', ' see.'].map(text => ({ ...event, text })) : [event]
      return pieces.flatMap(piece => encoder.push(piece))
    })
    const bodies: unknown[] = []
    const fetch: typeof globalThis.fetch = async (_url, init) => {
      bodies.push(JSON.parse(String(init?.body)))
      return new Response(Buffer.concat(bytes) as never, { headers: { 'content-type': 'text/event-stream' } })
    }
    const chat = new GoogleGenAI({ apiKey: 'x', httpOptions: { fetch } }).chats.create({ model: 'x' })
    for (const message of ['Hi', 'And?'])
      for await (const _chunk of await chat.sendMessageStream({ message })) {
        // The SDK records the answer when its stream has ended.
      }
    return bodies[1]
  }

  it('contains the text of an answer with sources or log probabilities in the next turn', async () => {
    const text = { type: 'text', text: 'Paris.' } as const
    const cited = { ...text, citations: [{ url: 'https://a.test/', start: 0, end: 5 }] }
    const token = { token: 'Paris.', logprob: -0.1, top: [] }
    for (const body of [await secondRequest([cited]), await secondRequest([text], [token])]) {
      const { messages } = read(gemini, body)
      assert.deepEqual(
        messages.map(({ role, content }) => [
          role,
          content.map(part => 'text' in part && part.text).join(''),
        ]),
        [
          ['user', 'Hi'],
          ['assistant', 'Paris.'],
          ['user', 'And?'],
        ],
      )
    }
  })

  it('is one answer with one text for every other vendor', () => {
    const called = { functionCall: { name: 'f', args: {} } }
    const pieces = [{ text: 'It is ' }, { text: 'sunny.' }, called, { text: '' }]
    const { messages } = read(gemini, {
      contents: [
        { role: 'user', parts: [{ text: 'Hi' }] },
        ...pieces.map(part => ({ role: 'model', parts: [part] })),
        { role: 'user', parts: [{ functionResponse: { name: 'f', response: {} } }] },
      ],
    })
    assert.deepEqual(
      messages.map(({ role }) => role),
      ['user', 'assistant', 'tool'],
    )
    assert.deepEqual(messages[1]?.content, [
      { type: 'text', text: 'It is sunny.' },
      { type: 'toolCall', id: 'call_1', name: 'f', arguments: '{}' },
    ])
  })

  it('sends the reasoning of another vendor back with all of its text', async () => {
    const body = await secondRequest([
      { type: 'reasoning', text: 'Let me see.', signature: { format: 'anthropic', value: 'c2ln' } },
      { type: 'text', text: 'Paris.' },
    ])
    const { messages } = anthropic.encodeRequest(read(gemini, body, 'claude-sonnet-4-5')).body as {
      messages: { content: unknown }[]
    }
    assert.deepEqual(messages[1]?.content, [
      { type: 'thinking', thinking: 'Let me see.', signature: 'c2ln' },
      { type: 'text', text: 'Paris.' },
    ])
  })
})

describe('errors in Gemini’s format', () => {
  const error = (code: number, status: string, details: readonly object[] = []) =>
    gemini.decodeError({ status: code, body: { error: { code, message: 'm', status, details } } })
  const info = (type: string, rest: object) => ({
    '@type': `type.googleapis.com/google.rpc.${type}`,
    ...rest,
  })

  it('are recognized as key errors although the status is 400', () => {
    assert.equal(
      error(400, 'INVALID_ARGUMENT', [info('ErrorInfo', { reason: 'API_KEY_INVALID' })]).kind,
      'auth',
    )
  })

  it('contain the retry delay in the body', () => {
    const { kind, retryAfterS } = error(429, 'RESOURCE_EXHAUSTED', [
      info('RetryInfo', { retryDelay: '47.2s' }),
    ])
    assert.deepEqual([kind, retryAfterS], ['rateLimit', 48])
  })

  it('keep their type on the way to a client and back', () => {
    for (const kind of [
      'context',
      'filtered',
      'quota',
      'tooLarge',
      'timeout',
      'overloaded',
      'notFound',
    ] as const) {
      const { status, body } = gemini.encodeError({ kind, message: 'm' })
      assert.equal(gemini.decodeError({ status, body }).kind, kind)
      assert.equal((body as { error: { code: number } }).error.code, status)
    }
  })
})

describe('embeddings in Gemini’s format', () => {
  const content = (text: string) => ({ content: { parts: [{ text }] } })

  it('are requested one by one or in a batch', () => {
    const one = decodeEmbedding({ ...content('a'), taskType: 'RETRIEVAL_QUERY' }, { model: 'e' })
    assert.deepEqual(one, {
      request: { model: 'e', inputs: ['a'] },
      isBatch: false,
      warnings: [{ field: 'taskType', message: 'has no counterpart and was left out' }],
    })
    const requests = ['a', 'b'].map(text => ({ ...content(text), output_dimensionality: 8 }))
    assert.deepEqual(decodeEmbedding({ requests }, { model: 'e' }), {
      request: { model: 'e', inputs: ['a', 'b'], dimensions: 8 },
      isBatch: true,
      warnings: [],
    })
  })

  it('are rejected with the name of the invalid field', () => {
    const fault = (body: object) => {
      const decoded = decodeEmbedding(body, { model: 'e' })
      return 'fault' in decoded ? decoded.fault.param : undefined
    }
    assert.equal(fault({}), 'content')
    assert.equal(fault({ content: { parts: [{ inlineData: {} }] } }), 'content.parts[0].text')
    assert.equal(fault({ requests: [] }), 'requests')
    assert.equal(
      fault({ requests: [content('a'), { ...content('b'), outputDimensionality: 8 }] }),
      'requests',
    )
    assert.equal(fault({ ...content('a'), outputDimensionality: 0 }), 'outputDimensionality')
  })

  it('are returned in the requested form', () => {
    assert.deepEqual(encodeVectors([[1, 0]], false), { embedding: { values: [1, 0] } })
    assert.deepEqual(encodeVectors([[1], [2]], true), { embeddings: [{ values: [1] }, { values: [2] }] })
  })

  it('have length 1 also if they were shortened', () => {
    const request = { model: 'e', inputs: ['a'], dimensions: 2 }
    assert.deepEqual(geminiEmbedding.encode(request, 'e').json, {
      requests: [{ model: 'models/e', content: { parts: [{ text: 'a' }] }, outputDimensionality: 2 }],
    })
    const answer = { embeddings: [{ values: [3, 4] }] }
    const { dimensions: _, ...plain } = request
    assert.deepEqual(geminiEmbedding.decode(answer, request).vectors, [[0.6, 0.8]])
    assert.deepEqual(geminiEmbedding.decode(answer, plain).vectors, [[3, 4]])
    for (const none of [{}, { embeddings: [{ values: 'x' }] }, { embeddings: [] }])
      assert.throws(() => geminiEmbedding.decode(none, plain), { name: 'AnswerError' })
  })
})
