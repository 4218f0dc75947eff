import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { bedrock } from '../../src/chat/anthropic/bedrock/format.ts'
import { anthropic } from '../../src/chat/anthropic/messages/format.ts'
import { cohere } from '../../src/chat/cohere/format.ts'
import { gemini } from '../../src/chat/gemini/format.ts'
import { eventsOf } from '../../src/chat/hub/answer.ts'
import type { Format, IdsAndClock, Outbound } from '../../src/chat/hub/format.ts'
import type { ChatAnswer, ChatEvent, ChatRequest, Part } from '../../src/chat/hub/hub.ts'
import { withClientPaths } from '../../src/chat/hub/lost-content.ts'
import { createEventMeter } from '../../src/chat/hub/meter.ts'
import { hasForeignSignature } from '../../src/chat/hub/signature.ts'
import { fittedNames, restoringNames, withFittedNames } from '../../src/chat/hub/tools/fitted-names.ts'
import { createWarnings } from '../../src/chat/hub/warnings.ts'
import { FORMATS } from '../../src/chat/index.ts'
import { ollama } from '../../src/chat/ollama/format.ts'
import { openaiChat } from '../../src/chat/openai/chat-completions/format.ts'
import { responses } from '../../src/chat/openai/responses/format.ts'
import { member } from '../../src/domain/json-value.ts'
import { warningsHeader } from '../../src/domain/warning.ts'
import { answerOf } from '../support/gathered-answer.ts'
import { GATHER } from '../support/sdk-answers.ts'

let ids = 0
const idsAndClock: IdsAndClock = { newId: prefix => `${prefix}${++ids}`, nowS: () => 1_700_000_000 }

const SCHEMA = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }

function translate(from: Format, to: Outbound, body: unknown) {
  const read = from.decodeRequest(body)
  assert.ok('request' in read, JSON.stringify(read))
  const { body: encodedBody, warnings } = to.encodeRequest(read.request)
  return { body: encodedBody, warned: warnings.map(({ field }) => field) }
}

/** The fields of a body that a test compares. */
const fields = (body: object, ...names: readonly string[]) =>
  Object.fromEntries(names.map(name => [name, (body as Record<string, unknown>)[name]]))

/** Those of the fields that are present. */
const saidOf = (body: object, ...names: readonly string[]) =>
  Object.fromEntries(Object.entries(body).filter(([name]) => names.includes(name)))

describe('tool names that a vendor rejects', () => {
  const read = (...names: readonly string[]) => {
    const tools = names.map(name => ({ type: 'function', function: { name } }))
    const decoded = openaiChat.decodeRequest({
      model: 'm',
      messages: [{ role: 'user', content: 'x' }],
      tools,
    })
    assert.ok('request' in decoded)
    return decoded.request
  }

  it('stay unchanged if they are accepted', () => {
    assert.equal(fittedNames(read('a_b-c'), 'anthropic'), undefined)
    assert.equal(fittedNames(read('a.b'), 'gemini'), undefined)
    assert.equal(fittedNames(read('any thing'), 'ollama'), undefined)
  })

  it('stay distinct, and are restored in a stream', () => {
    const request = read('a.b', 'a:b', 'good')
    const names = fittedNames(request, 'anthropic')
    const sentNames = withFittedNames(request, names).tools?.map(tool => ('name' in tool ? tool.name : ''))
    assert.equal(new Set(sentNames).size, 3)
    assert.ok(sentNames?.every(name => /^[\w-]{1,64}$/.test(name)))
    assert.equal(sentNames?.[2], 'good')
    const answer: ChatAnswer = {
      id: 'a',
      model: 'm',
      choices: [
        {
          parts: [{ type: 'toolCall', id: 'c', name: sentNames?.[1] ?? '', arguments: '{}' }],
          stop: { reason: 'tools' },
        },
      ],
    }
    const encoder = restoringNames(openaiChat.createStreamEncoder({ idsAndClock }), names)
    const text = Buffer.concat(eventsOf(answer).flatMap(event => encoder.push(event))).toString()
    assert.match(text, /"name":"a:b"/)
  })
})

describe('a chat completion sent to a provider of messages', () => {
  const send = (body: object) =>
    translate(openaiChat, anthropic, {
      model: 'claude-sonnet-4-5',
      messages: [{ role: 'user', content: 'Hi' }],
      ...body,
    })

  it('moves instructions to `system` and sets the required output limit', () => {
    const { body, warned } = send({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'developer', content: 'Be kind.' },
        { role: 'user', content: 'Hi' },
      ],
    })
    assert.deepEqual(fields(body, 'system', 'messages', 'max_tokens'), {
      system: [
        { type: 'text', text: 'Be brief.' },
        { type: 'text', text: 'Be kind.' },
      ],
      messages: [{ role: 'user', content: 'Hi' }],
      max_tokens: 64_000,
    })
    assert.deepEqual(warned, [])
  })

  it('moves all results of a turn to the next one, before the user’s own content', () => {
    const call = (id: string, city: string) => ({
      id,
      type: 'function',
      function: { name: 'weather', arguments: JSON.stringify({ city }) },
    })
    const { body } = send({
      messages: [
        { role: 'user', content: 'Weather?' },
        { role: 'assistant', content: null, tool_calls: [call('a', 'Rome'), call('b', 'Oslo')] },
        { role: 'tool', tool_call_id: 'a', content: 'sun' },
        { role: 'tool', tool_call_id: 'b', content: 'snow' },
        { role: 'user', content: 'And tomorrow?' },
      ],
    })
    assert.deepEqual((body.messages as unknown[]).slice(1), [
      {
        role: 'assistant',
        content: [
          { type: 'tool_use', id: 'a', name: 'weather', input: { city: 'Rome' } },
          { type: 'tool_use', id: 'b', name: 'weather', input: { city: 'Oslo' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: 'sun' },
          { type: 'tool_result', tool_use_id: 'b', content: 'snow' },
          { type: 'text', text: 'And tomorrow?' },
        ],
      },
    ])
  })

  it('rewrites ids that the vendor would reject alike in the call and its result', () => {
    const { body } = send({
      messages: [
        { role: 'user', content: 'x' },
        {
          role: 'assistant',
          tool_calls: [{ id: 'call:1/é', type: 'function', function: { name: 'f', arguments: '' } }],
        },
        { role: 'tool', tool_call_id: 'call:1/é', content: 'y' },
      ],
    })
    const [
      ,
      {
        content: [call],
      },
      {
        content: [result],
      },
    ] = body.messages as { content: Record<string, string>[] }[] &
      [unknown, { content: [Record<string, string>] }, { content: [Record<string, string>] }]
    assert.match(String(call.id), /^[a-zA-Z0-9_-]{1,64}$/)
    assert.equal(result.tool_use_id, call.id)
    assert.deepEqual(call.input, {})
  })

  it('preserves images, documents and cache markers', () => {
    const { body, warned } = send({
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look', cache_control: { type: 'ephemeral', ttl: '1h' } },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
            { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
            { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } },
          ],
        },
      ],
    })
    assert.deepEqual((body.messages as { content: unknown }[])[0]?.content, [
      { type: 'text', text: 'Look', cache_control: { type: 'ephemeral', ttl: '1h' } },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
      { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
      {
        type: 'document',
        title: 'a.pdf',
        source: { type: 'base64', media_type: 'application/pdf', data: 'AAAA' },
      },
    ])
    assert.deepEqual(warned, [])
  })

  it('does not mistake names of prototype members for known values', () => {
    const input_audio = { data: 'AAAA', format: '__proto__' }
    const translation = send({
      messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio }] }],
    })
    assert.deepEqual(translation.warned, ['messages[0].content[0]'])
    assert.equal(send({ reasoning_effort: 'constructor' }).body.thinking, undefined)
  })

  it('sets the type of an image from its bytes, whatever type the client declares', () => {
    const sourceOf = (url: string) => {
      const { body } = send({
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
      })
      const [turn] = body.messages as { content: { source: unknown }[] }[]
      return turn?.content[0]?.source
    }
    const inline = (media_type: string, data: string) => ({ type: 'base64', media_type, data })
    const jpeg = inline('image/jpeg', '/9j/4AAQSkZJRg==')
    assert.deepEqual(sourceOf('data:image/png;base64,/9j/4AAQSkZJRg=='), jpeg)
    assert.deepEqual(sourceOf('data:image/jpg;base64,/9j/4AAQ\nSkZJRg=='), jpeg)
    assert.deepEqual(sourceOf('data:;base64,iVBORw0KGgo='), inline('image/png', 'iVBORw0KGgo='))
    assert.deepEqual(sourceOf('data:image/jpg;charset=utf-8;base64,AAAA'), inline('image/jpeg', 'AAAA'))
    // Unreadable images are forwarded for the vendor to reject.
    assert.deepEqual(sourceOf('data:image/svg+xml,%zz'), { type: 'url', url: 'data:image/svg+xml,%zz' })
  })

  it('translates every tool choice', () => {
    const tools = ['a', 'b'].map(name => ({ type: 'function', function: { name, parameters: SCHEMA } }))
    const namedTool = { type: 'function', function: { name: 'a' } }
    const allowed = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [namedTool] } }
    const both = { mode: 'auto', tools: [namedTool, { type: 'function', function: { name: 'b' } }] }
    const choose = (tool_choice: unknown, more = {}) => send({ tools, tool_choice, ...more }).body.tool_choice
    assert.deepEqual(choose('auto'), { type: 'auto' })
    assert.deepEqual(choose('none'), { type: 'none' })
    assert.deepEqual(choose('required'), { type: 'any' })
    assert.deepEqual(choose(namedTool), { type: 'tool', name: 'a' })
    assert.deepEqual(choose(allowed), { type: 'tool', name: 'a' })
    assert.deepEqual(choose({ type: 'allowed_tools', allowed_tools: both }), { type: 'auto' })
    assert.deepEqual(choose(undefined, { parallel_tool_calls: false }), {
      type: 'auto',
      disable_parallel_tool_use: true,
    })
  })

  it('sends a schema if the model supports one, and puts it into the prompt if not', () => {
    const response_format = { type: 'json_schema', json_schema: { name: 'x', schema: SCHEMA } }
    const newer = send({ response_format })
    const schema = { ...SCHEMA, additionalProperties: false }
    assert.deepEqual(newer.body.output_config, { format: { type: 'json_schema', schema } })
    assert.deepEqual(newer.warned, [])
    const older = send({ response_format, model: 'claude-3-5-haiku-20241022' })
    assert.match(String(older.body.system), /"city"/)
    assert.deepEqual(older.warned, ['response_format'])
  })

  it('sends a schema without the rules that the vendor rejects, and adds those to the prompt', () => {
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: {
        age: { type: 'integer', description: 'In years.', minimum: 0, maximum: 150 },
        names: { type: 'array', minItems: 2, items: { type: 'string', format: 'email', pattern: '@' } },
        pet: { oneOf: [{ type: 'object', properties: { name: { type: 'string' } } }, { type: 'null' }] },
      },
      required: ['age'],
    }
    const { body, warned } = send({
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
    })
    assert.deepEqual((body.output_config as { format: { schema: unknown } }).format.schema, {
      type: 'object',
      properties: {
        age: { type: 'integer', description: 'In years. (minimum: 0, maximum: 150)' },
        names: {
          type: 'array',
          items: { type: 'string', format: 'email', description: '(pattern: "@")' },
          description: '(minItems: 2)',
        },
        pet: {
          anyOf: [
            { type: 'object', properties: { name: { type: 'string' } }, additionalProperties: false },
            { type: 'null' },
          ],
        },
      },
      required: ['age'],
      additionalProperties: false,
    })
    assert.deepEqual(warned, ['response_format.schema'])
  })

  it('makes as many tools strict as the vendor accepts, for models that support strict tools', () => {
    const strictOf = (count: number, parameters: object, model = 'claude-sonnet-4-5') => {
      const tools = Array.from({ length: count }, (_, at) => ({
        type: 'function',
        function: { name: `f${at}`, parameters, strict: true },
      }))
      const translation = send({ tools, model })
      const strict = (translation.body.tools as { strict?: boolean }[]).filter(tool => tool.strict).length
      return [strict, translation.warned.length]
    }
    assert.deepEqual(strictOf(22, SCHEMA), [20, 2])
    const unions = {
      ...SCHEMA,
      properties: { city: { type: ['string', 'null'] }, at: { type: ['integer', 'null'] } },
    }
    assert.deepEqual(strictOf(10, unions), [8, 2])
    assert.deepEqual(strictOf(1, SCHEMA, 'claude-opus-4-1-20250805'), [0, 1])
  })

  it('translates effort to what the model supports, within the limit of the request', () => {
    const older = send({ reasoning_effort: 'high', max_completion_tokens: 8_000 })
    assert.deepEqual(older.body.thinking, { type: 'enabled', budget_tokens: 4_000 })
    assert.equal(older.body.max_tokens, 8_000)
    const newer = send({ reasoning_effort: 'high', model: 'claude-opus-4-7' })
    assert.deepEqual(fields(newer.body, 'thinking', 'output_config'), {
      thinking: { type: 'adaptive' },
      output_config: { effort: 'high' },
    })
    assert.deepEqual(send({ reasoning_effort: 'none' }).body.thinking, { type: 'disabled' })
    const tight = send({ reasoning_effort: 'low', max_tokens: 500 })
    assert.deepEqual([tight.body.thinking, tight.warned], [undefined, ['reasoning_effort']])
  })

  it('sends sampling parameters only as far as the model supports them', () => {
    const chosen = (body: object) => {
      const translation = send(body)
      return [saidOf(translation.body, 'temperature', 'top_p', 'top_k'), translation.warned]
    }
    const both = { temperature: 0.7, top_p: 0.9 }
    assert.deepEqual(chosen(both), [{ temperature: 0.7 }, ['top_p']])
    assert.deepEqual(chosen({ ...both, model: 'claude-opus-4-1-20250805' }), [
      { temperature: 0.7 },
      ['top_p'],
    ])
    // Dropping a default beside an explicit value needs no warning.
    assert.deepEqual(chosen({ temperature: 0.7, top_p: 1 }), [{ temperature: 0.7 }, []])
    assert.deepEqual(chosen({ temperature: 1, top_p: 0.9 }), [{ top_p: 0.9 }, []])
    assert.deepEqual(chosen({ ...both, model: 'claude-sonnet-4-20250514' }), [both, []])
    assert.deepEqual(chosen({ ...both, model: 'another-makers' }), [both, []])
    const newest = { ...both, top_k: 5, model: 'claude-opus-4-7' }
    assert.deepEqual(chosen(newest), [{}, ['temperature', 'top_p', 'top_k']])
    assert.deepEqual(chosen({ temperature: 1, top_p: 1, model: 'claude-opus-5' }), [{}, []])
    const thinking = { reasoning_effort: 'high', max_tokens: 9_000 }
    assert.deepEqual(chosen({ ...thinking, top_p: 0.5 }), [{}, ['top_p']])
    assert.deepEqual(chosen({ ...thinking, temperature: 1, top_p: 0.97 }), [{ top_p: 0.97 }, []])
  })

  it('accepts the legacy functions, and responds with a function call', () => {
    const first = {
      model: 'claude-sonnet-4-5',
      messages: [
        { role: 'user', content: 'Rain?' },
        { role: 'assistant', content: null, function_call: { name: 'weather', arguments: '{"in":"Rome"}' } },
        { role: 'function', name: 'weather', content: 'dry' },
        { role: 'assistant', content: null, function_call: { name: 'weather', arguments: '{"in":"Bern"}' } },
        { role: 'function', name: 'weather', content: 'wet' },
      ],
      functions: [{ name: 'weather', description: 'tells it', parameters: SCHEMA }],
      function_call: { name: 'weather' },
    }
    const { body, warned } = send(first)
    const used = (id: string, city: string) => ({
      role: 'assistant',
      content: [{ type: 'tool_use', id, name: 'weather', input: { in: city } }],
    })
    const toolResultOf = (tool_use_id: string, content: string) => ({
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id, content }],
    })
    assert.deepEqual(warned, [])
    assert.deepEqual(body.messages, [
      { role: 'user', content: 'Rain?' },
      used('call_function_1', 'Rome'),
      toolResultOf('call_function_1', 'dry'),
      used('call_function_2', 'Bern'),
      toolResultOf('call_function_2', 'wet'),
    ])
    assert.deepEqual(body.tools, [{ name: 'weather', description: 'tells it', input_schema: SCHEMA }])
    assert.deepEqual(body.tool_choice, { type: 'tool', name: 'weather', disable_parallel_tool_use: true })

    const read = openaiChat.decodeRequest(first)
    assert.ok('request' in read)
    const answer: ChatAnswer = {
      id: 'a',
      model: 'm',
      choices: [
        {
          parts: [{ type: 'toolCall', id: 'toolu_1', name: 'weather', arguments: '{"in":"Oslo"}' }],
          stop: { reason: 'tools' },
        },
      ],
    }
    const call = { name: 'weather', arguments: '{"in":"Oslo"}' }
    const whole = openaiChat.encodeAnswer(answer, { idsAndClock, request: read.request })
    const [choice] = whole.choices as { finish_reason: string; message: Record<string, unknown> }[]
    assert.deepEqual(
      [choice?.finish_reason, choice?.message.function_call, choice?.message.tool_calls],
      ['function_call', call, undefined],
    )
    const encoder = openaiChat.createStreamEncoder({ idsAndClock, request: read.request })
    const text = Buffer.concat(eventsOf(answer).flatMap(event => encoder.push(event))).toString()
    assert.match(text, /"function_call":{"name":"weather","arguments":""}/)
    assert.match(text, /"function_call":{"arguments":"{\\"in\\":\\"Oslo\\"}"}/)
    assert.match(text, /"finish_reason":"function_call"/)
    assert.doesNotMatch(text, /tool_calls/)
  })

  it('uses the model’s default thinking if the client enables it without a budget', () => {
    const free = send({ thinking: { type: 'enabled' } })
    assert.deepEqual(free.body.thinking, { type: 'enabled', budget_tokens: 16_384 })
    assert.deepEqual(send({ thinking: { type: 'enabled' }, model: 'claude-opus-4-6' }).body.thinking, {
      type: 'adaptive',
    })
  })

  it('repeats the tools of earlier calls if the client no longer offers any', () => {
    const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
    const { body, warned } = send({
      messages: [
        { role: 'user', content: 'x' },
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'a', content: 'y' },
        { role: 'user', content: 'Sum it up.' },
      ],
    })
    assert.deepEqual(body.tools, [{ name: 'f', input_schema: { type: 'object' } }])
    assert.deepEqual(body.tool_choice, { type: 'none' })
    assert.deepEqual(warned, [])
  })

  it('starts with a user turn, whatever the client starts with', () => {
    const alone = send({ messages: [{ role: 'system', content: 'Write a poem.' }] })
    assert.deepEqual(saidOf(alone.body, 'system', 'messages'), {
      messages: [{ role: 'user', content: 'Write a poem.' }],
    })
    assert.deepEqual(alone.warned, ['messages'])
    const greeted = send({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'assistant', content: 'Hello!' },
        { role: 'user', content: 'Hi' },
      ],
    })
    assert.deepEqual(
      [(greeted.body.messages as { role: string }[]).map(({ role }) => role), greeted.warned],
      [['user', 'assistant', 'user'], ['messages']],
    )
    assert.equal(greeted.body.system, 'Be brief.')
  })

  it('disables thinking if the vendor would reject it', () => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: SCHEMA } }]
    const forced = send({ reasoning_effort: 'low', tools, tool_choice: 'required' })
    assert.deepEqual([forced.body.thinking, forced.warned], [undefined, ['reasoning']])
    const loop = send({
      reasoning_effort: 'low',
      tools,
      messages: [
        { role: 'user', content: 'x' },
        {
          role: 'assistant',
          tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
        },
        { role: 'tool', tool_call_id: 'a', content: 'y' },
      ],
    })
    assert.deepEqual([loop.body.thinking, loop.warned], [undefined, ['reasoning']])
  })

  it('names everything that it cannot express', () => {
    const { warned } = send({
      seed: 1,
      n: 2,
      logprobs: true,
      presence_penalty: 1,
      frequency_penalty: 0,
      temperature: 2,
      stop: [' '],
      service_tier: 'flex',
      logit_bias: { 50256: -100 },
      messages: [
        {
          role: 'user',
          content: [
            { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
            { type: 'text', text: 'x' },
          ],
        },
        { role: 'system', content: 'Now be rude.' },
      ],
      tools: [{ type: 'custom', custom: { name: 'free' } }],
    })
    assert.deepEqual(warned.toSorted(), [
      'frequency_penalty',
      'logit_bias',
      'logprobs',
      'messages[0].content[0]',
      'messages[1]',
      'n',
      'presence_penalty',
      'seed',
      'service_tier',
      'stop',
      'temperature',
      'tools[0]',
    ])
  })
})

const CLAUDE = { model: 'gpt-x', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] }

describe('messages sent to a provider of chat completions', () => {
  const send = (body: object) =>
    translate(anthropic, openaiChat, {
      model: 'gpt-x',
      max_tokens: 100,
      messages: [{ role: 'user', content: 'Hi' }],
      ...body,
    })

  it('always requests the usage of a stream', () => {
    assert.deepEqual(send({ stream: true }).body.stream_options, { include_usage: true })
  })

  it('requests the usual service by the name that the vendor has for it', () => {
    assert.equal(send({ service_tier: 'standard_only' }).body.service_tier, 'default')
    assert.equal(send({ service_tier: 'auto' }).body.service_tier, 'auto')
    assert.equal(send({}).body.service_tier, undefined)
    const own = { model: 'claude', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] }
    const back = translate(anthropic, anthropic, { ...own, service_tier: 'standard_only' })
    assert.equal(back.body.service_tier, 'standard_only')
  })

  const object = (properties: object, required: readonly string[], more: object = {}) => ({
    type: 'object',
    properties,
    required,
    additionalProperties: false,
    ...more,
  })
  const text = { type: 'string' }

  it('makes the schema of an answer strict if it fits OpenAI’s rules, because Anthropic and Gemini enforce it', () => {
    const strictOf = (schema: object) => {
      const request = { output_config: { format: { type: 'json_schema', schema } } }
      const { body, warned } = send(request)
      const own = translate(anthropic, responses, { ...CLAUDE, ...request }).body
      const question = { model: 'm', contents: [{ parts: [{ text: 'Hi' }] }] }
      const generationConfig = { responseMimeType: 'application/json', responseJsonSchema: schema }
      const fromGemini = translate(gemini, openaiChat, { ...question, generationConfig }).body
      const { strict } = (body.response_format as { json_schema: { strict?: boolean } }).json_schema
      assert.deepEqual((own.text as { format: { strict?: boolean } }).format.strict, strict)
      assert.deepEqual(fromGemini.response_format, body.response_format)
      assert.deepEqual(warned, [])
      return strict
    }
    const inside = (schema: object) => object({ a: schema }, ['a'])
    const optional = object({ b: text }, [])
    assert.equal(strictOf(inside(text)), true)
    assert.equal(
      strictOf(inside({ type: 'array', items: { anyOf: [inside(text), { type: 'null' }] } })),
      true,
    )
    assert.equal(strictOf(inside({ enum: ['x', 'y'], description: 'One of them', title: 'A' })), true)
    assert.equal(strictOf(object({ a: { $ref: '#/$defs/d' } }, ['a'], { $defs: { d: inside(text) } })), true)
    for (const schema of [
      SCHEMA,
      text,
      inside({ ...text, default: 'x' }),
      inside({ ...text, pattern: '^x' }),
      inside({ type: 'array', items: optional }),
      inside({ anyOf: [text, optional] }),
      { ...inside(text), anyOf: [inside(text)] },
      inside(inside(inside(inside(inside(text))))),
      object({ a: { $ref: '#/$defs/d' } }, ['a'], { $defs: { d: optional } }),
    ])
      assert.equal(strictOf(schema), undefined, JSON.stringify(schema))
    const names = Array.from({ length: 101 }, (_, index) => `f${index}`)
    assert.equal(strictOf(object(Object.fromEntries(names.map(name => [name, text])), names)), undefined)
  })

  it('makes a tool strict if its schema fits OpenAI’s rules, which are stricter than Anthropic’s', () => {
    const strictOf = (input_schema: object) => {
      const request = { tools: [{ name: 'f', input_schema, strict: true }] }
      const { body, warned } = send(request)
      const own = translate(anthropic, responses, { ...CLAUDE, ...request })
      const [tool] = own.body.tools as [{ strict: boolean }]
      const [called] = body.tools as [{ function: { strict?: boolean } }]
      assert.deepEqual([own.warned, tool.strict], [warned, called.function.strict ?? false])
      return [called.function.strict, warned.join()]
    }
    const omittedStrict = [undefined, 'tools[0].strict']
    assert.deepEqual(strictOf(object({ a: text }, ['a'])), [true, ''])
    assert.deepEqual(strictOf(object({ a: { type: 'array', items: object({ b: text }, ['b']) } }, ['a'])), [
      true,
      '',
    ])
    assert.deepEqual(strictOf(object({ a: text, b: text }, ['a'])), omittedStrict)
    assert.deepEqual(strictOf(object({ a: text }, ['a'], { additionalProperties: true })), omittedStrict)
    assert.deepEqual(
      strictOf(object({ a: { anyOf: [text, object({ b: text }, [])] } }, ['a'])),
      omittedStrict,
    )
    assert.deepEqual(
      strictOf(object({ a: { $ref: '#/$defs/d' } }, ['a'], { $defs: { d: object({ b: text }, []) } })),
      omittedStrict,
    )
  })

  it('makes a message of each result, and one user message of the images in them', () => {
    const { body, warned } = send({
      messages: [
        { role: 'user', content: 'Look' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'see', input: { x: 1 } }] },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: 'a',
              content: [
                { type: 'text', text: 'seen' },
                { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
              ],
            },
            { type: 'text', text: 'Well?' },
          ],
        },
      ],
    })
    assert.deepEqual((body.messages as unknown[]).slice(1), [
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'see', arguments: '{"x":1}' } }],
      },
      { role: 'tool', tool_call_id: 'a', content: 'seen' },
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] },
      { role: 'user', content: 'Well?' },
    ])
    assert.deepEqual(warned, ['messages[2].content[0].content'])
  })

  it('sends no list of tools without a tool, and then no choice, because providers reject them', () => {
    const question = { model: 'm', input: 'Hi', tool_choice: 'auto', parallel_tool_calls: false }
    const names = ['tools', 'tool_choice', 'parallel_tool_calls']
    for (const tools of [undefined, [], [{ type: 'local_shell' }]]) {
      const { body } = translate(responses, openaiChat, { ...question, ...(tools && { tools }) })
      assert.deepEqual(saidOf(body, ...names), {})
    }
    const searching = { model: 'm', contents: [{ parts: [{ text: 'Hi' }] }], tools: [{ googleSearch: {} }] }
    assert.deepEqual(saidOf(translate(gemini, openaiChat, searching).body, ...names), {})
    const offered = { ...question, tools: [{ type: 'function', name: 'f' }] }
    assert.deepEqual(Object.keys(saidOf(translate(responses, openaiChat, offered).body, ...names)), names)
  })

  it('leaves out cache markers, with one warning for all', () => {
    const cache_control = { type: 'ephemeral' }
    const { body, warned } = send({
      system: [{ type: 'text', text: 'a', cache_control }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'b', cache_control }] }],
      tools: [{ name: 'f', input_schema: SCHEMA, cache_control }],
    })
    assert.doesNotMatch(JSON.stringify(body), /cache_control/)
    assert.deepEqual(warned, ['cache_control'])
  })

  it('keeps cache markers for a host that supports them', () => {
    const read = anthropic.decodeRequest({
      model: 'm',
      max_tokens: 1,
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'b', cache_control: { type: 'ephemeral' } }] },
      ],
    })
    assert.ok('request' in read)
    const { body, warnings } = openaiChat.encodeRequest(read.request, { keepCacheMarks: true })
    assert.match(JSON.stringify(body), /"cache_control":{"type":"ephemeral"}/)
    assert.deepEqual(warnings, [])
  })

  it('converts a budget to an effort, with a warning', () => {
    const { body, warned } = send({ thinking: { type: 'enabled', budget_tokens: 4_000 }, max_tokens: 9_000 })
    assert.equal(body.reasoning_effort, 'medium')
    assert.deepEqual(warned, ['reasoning.budget'])
  })

  it('sets an effort that the model supports, and none if it cannot reason', () => {
    const effort = (model: string, wish: object) => {
      const translation = send({ model, max_tokens: 8_000, ...wish })
      return [translation.body.reasoning_effort, translation.warned.join()]
    }
    const much = { thinking: { type: 'enabled', budget_tokens: 31_999 } }
    assert.deepEqual(effort('gpt-5.1', much), ['high', 'reasoning.budget'])
    assert.deepEqual(effort('another-makers', much), ['high', 'reasoning.budget'])
    assert.deepEqual(effort('gpt-4o', much), [undefined, 'reasoning'])
    const none = { thinking: { type: 'disabled' } }
    assert.deepEqual(effort('gpt-4.1-mini', none), [undefined, ''])
    assert.deepEqual(effort('gpt-5.1', none), ['none', ''])
    assert.deepEqual(effort('gpt-5-mini', none), ['minimal', 'reasoning_effort'])
    assert.deepEqual(effort('o3', none), ['low', 'reasoning_effort'])
    const most = { thinking: { type: 'adaptive' }, output_config: { effort: 'max' } }
    assert.deepEqual(effort('gpt-5.2', most), ['xhigh', 'reasoning_effort'])
    assert.deepEqual(effort('another-makers', most), ['max', ''])
  })

  it('requests no more output than the model supports, and no more stop sequences than it accepts', () => {
    const limits = (model: string) => {
      const translation = send({ model, max_tokens: 32_000, stop_sequences: ['a', 'b', 'c', 'd', 'e'] })
      return [
        translation.body.max_completion_tokens,
        (translation.body.stop as string[]).length,
        translation.warned,
      ]
    }
    assert.deepEqual(limits('gpt-4o-mini'), [16_384, 4, ['max_tokens', 'stop']])
    assert.deepEqual(limits('gpt-4.1'), [32_000, 4, ['stop']])
    assert.deepEqual(limits('another-makers'), [32_000, 5, []])
    const claude = translate(openaiChat, anthropic, {
      model: 'claude-3-5-haiku-20241022',
      messages: [{ role: 'user', content: 'Hi' }],
      max_tokens: 16_000,
    })
    assert.deepEqual([claude.body.max_tokens, claude.warned], [8_192, ['max_tokens']])
  })

  it('sends no sampling parameters to a reasoning model', () => {
    const chosen = (model: string, wish: object) => {
      const translation = send({ model, max_tokens: 8_000, ...wish })
      return [saidOf(translation.body, 'temperature', 'top_p', 'stop'), translation.warned]
    }
    const wishes = { temperature: 0.2, top_p: 1, stop_sequences: ['END'] }
    const whole = { temperature: 0.2, top_p: 1, stop: ['END'] }
    assert.deepEqual(chosen('o3', wishes), [{}, ['temperature', 'stop']])
    assert.deepEqual(chosen('gpt-5-mini', wishes), [{}, ['temperature', 'stop']])
    assert.deepEqual(chosen('gpt-4o', wishes), [whole, []])
    assert.deepEqual(chosen('gpt-5-chat-latest', wishes), [whole, []])
    assert.deepEqual(chosen('gpt-5.2', wishes), [whole, []])
    const thinking = { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } }
    assert.deepEqual(chosen('gpt-5.2', { ...wishes, ...thinking }), [{ stop: ['END'] }, ['temperature']])
  })

  it('shortens ids that are too long alike in the call and its result', () => {
    const id = `toolu_${'x'.repeat(60)}`
    const { body } = send({
      messages: [
        { role: 'user', content: 'a' },
        { role: 'assistant', content: [{ type: 'tool_use', id, name: 'f', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'b' }] },
      ],
    })
    const [, call, result] = body.messages as { tool_calls: { id: string }[]; tool_call_id: string }[]
    assert.ok((call?.tool_calls[0]?.id.length ?? 99) <= 40)
    assert.equal(result?.tool_call_id, call?.tool_calls[0]?.id)
  })
})

describe('responses', () => {
  const read = (body: object) => responses.decodeRequest({ model: 'm', input: 'Hi', ...body })

  it('that require stored responses are rejected with the reason', () => {
    for (const [name, value] of [
      ['previous_response_id', 'resp_1'],
      ['conversation', 'conv_1'],
      ['prompt', { id: 'pmpt_1' }],
      ['background', true],
    ] as const) {
      const refused = read({ [name]: value })
      assert.ok('fault' in refused, name)
      assert.equal(refused.fault.param, name)
      assert.match(refused.fault.message, /not stored/)
    }
    const referred = read({ input: [{ type: 'item_reference', id: 'msg_1' }] })
    assert.ok('fault' in referred)
    assert.equal(referred.fault.param, 'input[0].id')
  })

  it('are requested without storing them, and without strict schemas that the client did not set', () => {
    const { body } = translate(openaiChat, responses, {
      model: 'm',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hi' },
      ],
      tools: [{ type: 'function', function: { name: 'f', parameters: SCHEMA } }],
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema: SCHEMA, strict: true } },
      reasoning_effort: 'low',
      metadata: { a: 'b' },
      max_tokens: 5,
    })
    assert.deepEqual(body, {
      store: false,
      metadata: { a: 'b' },
      model: 'm',
      instructions: 'Be brief.',
      input: [{ role: 'user', content: 'Hi' }],
      tools: [{ type: 'function', name: 'f', parameters: SCHEMA, strict: false }],
      max_output_tokens: 5,
      text: { format: { type: 'json_schema', name: 'x', schema: SCHEMA, strict: true } },
      reasoning: { effort: 'low' },
      include: ['reasoning.encrypted_content'],
    })
  })

  it('keep the fields that both formats of the vendor share', () => {
    const { body, warned } = translate(responses, openaiChat, {
      model: 'm',
      input: 'Hi',
      prompt_cache_key: 'k',
      safety_identifier: 's',
      truncation: 'auto',
    })
    assert.deepEqual(fields(body, 'prompt_cache_key', 'safety_identifier'), {
      prompt_cache_key: 'k',
      safety_identifier: 's',
    })
    assert.deepEqual(warned, ['truncation'])
  })

  it('join consecutive reasoning, text and calls of the assistant into one turn', () => {
    const decoded = read({
      input: [
        { role: 'user', content: 'Hi' },
        {
          type: 'reasoning',
          id: 'rs_1',
          summary: [{ type: 'summary_text', text: 'Hm' }],
          encrypted_content: 'xyz',
        },
        {
          type: 'message',
          role: 'assistant',
          id: 'msg_1',
          status: 'completed',
          content: [{ type: 'output_text', text: 'Hello', annotations: [] }],
        },
        {
          type: 'function_call',
          id: 'fc_1',
          call_id: 'call_1',
          name: 'f',
          arguments: '{}',
          status: 'completed',
        },
        { type: 'function_call_output', call_id: 'call_1', output: 'done' },
      ],
    })
    assert.ok('request' in decoded)
    assert.deepEqual(decoded.request.messages.slice(1), [
      {
        role: 'assistant',
        content: [
          { type: 'reasoning', text: 'Hm', id: 'rs_1', encrypted: { format: 'responses', value: 'xyz' } },
          { type: 'text', text: 'Hello' },
          { type: 'toolCall', id: 'call_1', name: 'f', arguments: '{}' },
        ],
      },
      {
        role: 'tool',
        content: [{ type: 'toolResult', callId: 'call_1', content: [{ type: 'text', text: 'done' }] }],
      },
    ])
  })

  it('have no usage if all its counts are zero', () => {
    assert.equal(
      responses.readUsage({ usage: { input_tokens: 0, output_tokens: 0, total_tokens: 0 } }),
      undefined,
    )
  })

  it('count cached, cache-written and reasoning tokens as parts', () => {
    const usage = responses.readUsage({
      usage: {
        input_tokens: 100,
        input_tokens_details: { cached_tokens: 50, cache_write_tokens: 20 },
        output_tokens: 30,
        output_tokens_details: { reasoning_tokens: 10 },
      },
    })
    assert.ok(usage)
    const { input, cachedInput, cacheWrite, output, reasoning } = usage
    assert.deepEqual([input, cachedInput, cacheWrite, output, reasoning], [30, 50, 20, 20, 10])
  })
})

/** What a client keeps of a response and sends back with the result of the call. */
const TURNS = {
  'openai-chat': (answer: object) => {
    const { choices } = answer as { choices: { message: object }[] }
    return {
      model: 'm',
      messages: [
        { role: 'user', content: 'Weather?' },
        choices[0]?.message,
        { role: 'tool', tool_call_id: 'call_1', content: 'sun' },
      ],
    }
  },
  anthropic: (answer: object) => ({
    model: 'm',
    max_tokens: 100,
    messages: [
      { role: 'user', content: 'Weather?' },
      { role: 'assistant', content: (answer as { content: unknown }).content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'sun' }] },
    ],
  }),
  gemini: (answer: object) => {
    const { candidates } = answer as { candidates: { content: object }[] }
    const response = { output: 'sun' }
    return {
      model: 'm',
      contents: [
        { role: 'user', parts: [{ text: 'Weather?' }] },
        candidates[0]?.content,
        { role: 'user', parts: [{ functionResponse: { name: 'weather', id: 'call_1', response } }] },
      ],
    }
  },
  responses: (answer: object) => ({
    model: 'm',
    store: false,
    input: [
      { role: 'user', content: 'Weather?' },
      ...(answer as { output: object[] }).output,
      { type: 'function_call_output', call_id: 'call_1', output: 'sun' },
    ],
  }),
} as const

describe('content signed by a vendor', () => {
  const parts = (...thoughts: readonly Part[]): ChatAnswer => ({
    id: 'a',
    model: 'm',
    choices: [
      {
        parts: [
          ...thoughts,
          { type: 'text', text: 'Let me look.' },
          {
            type: 'toolCall',
            id: 'call_1',
            name: 'weather',
            arguments: '{}',
            signature: { format: 'gemini', value: 'call-proof' },
          },
        ],
        stop: { reason: 'tools' },
      },
    ],
  })
  const cases: Readonly<Record<string, readonly Part[]>> = {
    'a signed thought': [
      { type: 'reasoning', text: 'Hm', signature: { format: 'anthropic', value: 'proof' } },
    ],
    'a signed thought without words': [
      { type: 'reasoning', text: '', signature: { format: 'anthropic', value: 'proof' } },
    ],
    'a redacted thought': [
      { type: 'reasoning', text: '', encrypted: { format: 'anthropic', value: 'blob' } },
    ],
    'two thoughts': [
      { type: 'reasoning', text: 'Hm', signature: { format: 'anthropic', value: 'one' } },
      { type: 'reasoning', text: 'Ah', signature: { format: 'anthropic', value: 'two' } },
    ],
    'an encrypted thought': [
      { type: 'reasoning', text: 'Hm', encrypted: { format: 'responses', value: 'blob' } },
    ],
  }

  /** The position of a signature may change on the way; its vendor and what it signs may not. */
  const proofs = (messageParts: readonly Part[]) =>
    messageParts.flatMap(part => {
      if (part.type === 'reasoning') return [[part.text, part.signature ?? part.encrypted]]
      return part.type === 'toolCall' ? [['call', part.signature]] : []
    })

  for (const format of FORMATS) {
    for (const [title, thoughts] of Object.entries(cases)) {
      it(`is restored through a client of ${format.name}: ${title}`, () => {
        const answer = parts(...thoughts)
        const expected = proofs(answer.choices[0]?.parts ?? [])
        const back = (encodedAnswer: object) => {
          const read = format.decodeRequest(TURNS[format.name as keyof typeof TURNS](encodedAnswer))
          assert.ok('request' in read, JSON.stringify(read))
          return proofs(read.request.messages.find(({ role }) => role === 'assistant')?.content ?? [])
        }
        assert.deepEqual(back(format.encodeAnswer(answer, { idsAndClock })), expected)
        // The same for a client that collected its response from a stream.
        const encoder = format.createStreamEncoder({ idsAndClock })
        const decoder = format.createStreamDecoder({ idsAndClock })
        const bytes = eventsOf(answer).flatMap(event => encoder.push(event))
        const events = [...bytes.flatMap(piece => decoder.push(piece)), ...decoder.end()]
        const partTypes = events.flatMap(event => (event.type === 'open' ? [event.content.type] : []))
        assert.deepEqual(
          partTypes,
          answer.choices[0]?.parts.map(part => part.type),
        )
      })
    }
  }

  describe('of a text', () => {
    const parts = [{ text: 'Hm', thought: true }, { text: 'It is ' }, { text: 'sunny.' }]
    const chunk = (part: object, more: object = {}) => ({
      candidates: [{ index: 0, content: { role: 'model', parts: [part] }, ...more }],
      modelVersion: 'gemini-3-pro-preview',
    })
    const stopped = { finishReason: 'STOP' }
    const wholes = {
      'with its words': [parts[0], { text: 'It is sunny.', thoughtSignature: 'c2ln' }],
      'after its words': [...parts, { text: '', thoughtSignature: 'c2ln' }],
    }
    const streams = {
      'with its last words': [
        ...parts.slice(0, 2).map(part => chunk(part)),
        chunk({ ...parts[2], thoughtSignature: 'c2ln' }, stopped),
      ],
      'in an empty text after it': [
        ...parts.map(part => chunk(part)),
        chunk({ text: '', thoughtSignature: 'c2ln' }, stopped),
      ],
      'in a part of its own': [
        ...parts.map(part => chunk(part)),
        chunk({ thoughtSignature: 'c2ln' }, stopped),
      ],
    }

    /**
     * What is sent back to Gemini of the response that a client received, when the conversation continues.
     */
    function sentBack(format: Format, encodedAnswer: object) {
      const read = format.decodeRequest(TURNS[format.name as keyof typeof TURNS](encodedAnswer), {
        model: 'm',
      })
      assert.ok('request' in read, JSON.stringify(read))
      const { contents } = gemini.encodeRequest({ ...read.request, model: 'gemini-3-pro-preview' }).body as {
        contents: { role: string; parts: { text?: string; thoughtSignature?: string }[] }[]
      }
      const modelParts = contents.find(({ role }) => role === 'model')?.parts ?? []
      return {
        text: modelParts.map(({ text = '' }) => text).join(''),
        signatures: modelParts.flatMap(({ thoughtSignature }) => thoughtSignature ?? []),
      }
    }

    function assertSentBack(format: Format, encodedAnswer: object): void {
      const { text, signatures } = sentBack(format, encodedAnswer)
      assert.match(text, /It is sunny\.$/)
      assert.deepEqual(signatures, ['c2ln'])
    }

    for (const format of FORMATS) {
      for (const [place, signedParts] of Object.entries(wholes))
        it(`is restored through a client of ${format.name}, not streamed, ${place}`, () => {
          const answer = gemini.decodeAnswer(
            { candidates: [{ content: { role: 'model', parts: signedParts }, ...stopped }] },
            { idsAndClock },
          )
          assert.ok(!('error' in answer))
          assertSentBack(format, format.encodeAnswer(answer, { idsAndClock }))
        })

      for (const [place, chunks] of Object.entries(streams))
        it(`is restored through a client of ${format.name} that collects a stream, ${place}`, async () => {
          const decoder = gemini.createStreamDecoder({ idsAndClock })
          const encoder = format.createStreamEncoder({ idsAndClock })
          const bytes = chunks.map(each => `data: ${JSON.stringify(each)}\n\n`).join('')
          const events = [...decoder.push(Buffer.from(bytes)), ...decoder.end()]
          const stream = Buffer.concat(events.flatMap(event => encoder.push(event)))
          assertSentBack(format, await GATHER[format.name as keyof typeof GATHER](stream))
        })
    }

    it('is left out with a warning if the conversation continues with another vendor', () => {
      const signature = { format: 'gemini', value: 'c2ln' }
      const request: ChatRequest = {
        model: 'm',
        stream: false,
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'x' }] },
          { role: 'assistant', content: [{ type: 'text', text: 'y', signature }] },
          { role: 'user', content: [{ type: 'text', text: 'z' }] },
        ],
      }
      for (const format of [openaiChat, anthropic, responses]) {
        const { body, warnings } = format.encodeRequest(request)
        assert.doesNotMatch(JSON.stringify(body), /c2ln/)
        assert.equal(warnings.length, 1)
      }
    })
  })

  it('is detected in a body that would otherwise be forwarded unchanged, and removed from it', () => {
    const thought: Part = { type: 'reasoning', text: 'Hm', signature: { format: 'gemini', value: 'proof' } }
    const call: Part = { type: 'toolCall', id: 'call_1', name: 'f', arguments: '{}' }
    const answer: ChatAnswer = {
      id: 'a',
      model: 'm',
      choices: [{ parts: [thought, call], stop: { reason: 'tools' } }],
    }
    for (const format of [anthropic, responses]) {
      const body: object = TURNS[format.name](format.encodeAnswer(answer, { idsAndClock }))
      assert.equal(hasForeignSignature(Buffer.from(JSON.stringify(body))), true)
      const again = translate(format, format, body)
      assert.equal(hasForeignSignature(Buffer.from(JSON.stringify(again.body))), false)
      assert.equal(again.warned.length, 1)
    }
    assert.equal(hasForeignSignature(Buffer.from('{"content":"use sluice: it is good"}')), false)
  })

  it('is sent back to its own vendor and to no other', () => {
    const thought: Part = {
      type: 'reasoning',
      text: 'Hm',
      signature: { format: 'anthropic', value: 'proof' },
    }
    const call: Part = { type: 'toolCall', id: 'a', name: 'f', arguments: '{}' }
    const request: ChatRequest = {
      model: 'claude-sonnet-4-5',
      stream: false,
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'x' }] },
        { role: 'assistant', content: [thought, call] },
        { role: 'tool', content: [{ type: 'toolResult', callId: 'a', content: [] }] },
      ],
    }
    const [, turn] = anthropic.encodeRequest(request).body.messages as { content: unknown[] }[]
    assert.deepEqual(turn?.content[0], { type: 'thinking', thinking: 'Hm', signature: 'proof' })
    const elsewhere = responses.encodeRequest(request)
    assert.doesNotMatch(JSON.stringify(elsewhere.body), /proof/)
    assert.deepEqual(
      elsewhere.warnings.map(({ field }) => field),
      ['messages[1]'],
    )
  })
})

describe('a tool that takes free text', () => {
  const request = {
    model: 'm',
    messages: [{ role: 'user', content: 'x' }],
    tools: [{ type: 'custom', custom: { name: 'patch', description: 'Patches', format: { type: 'text' } } }],
  }
  const called: ChatAnswer = {
    id: 'a',
    model: 'm',
    choices: [
      {
        parts: [{ type: 'toolCall', id: 'c', name: 'patch', arguments: '{"input":"a \\"b\\"\\nc"}' }],
        stop: { reason: 'tools' },
      },
    ],
  }

  it('is offered as a function if the format has no such tools', () => {
    const { body, warned } = translate(openaiChat, anthropic, request)
    const [tool] = body.tools as { name: string; input_schema: { required: string[] } }[]
    assert.deepEqual([tool?.name, tool?.input_schema.required], ['patch', ['input']])
    assert.deepEqual(warned, ['tools[0]'])
  })

  it('keeps its grammar between the two formats of OpenAI, which nest it differently', () => {
    const grammar = { syntax: 'lark', definition: 'start: "a"' }
    const nested = { name: 'patch', format: { type: 'grammar', grammar } }
    const flat = { type: 'custom', name: 'patch', format: { type: 'grammar', ...grammar } }
    const chat = { ...request, tools: [{ type: 'custom', custom: nested }] }
    assert.deepEqual(translate(openaiChat, responses, chat).body.tools, [flat])
    const own = { model: 'm', input: 'x', tools: [flat] }
    assert.deepEqual(translate(responses, openaiChat, own).body.tools, chat.tools)
  })

  it('is sent back as it was called', () => {
    const custom = { id: 'c', type: 'custom', custom: { name: 'patch', input: 'a' } }
    const { body } = translate(openaiChat, anthropic, {
      ...request,
      messages: [
        { role: 'user', content: 'x' },
        { role: 'assistant', tool_calls: [custom] },
        { role: 'tool', tool_call_id: 'c', content: 'ok' },
      ],
    })
    const [, turn] = body.messages as { content: unknown }[]
    assert.deepEqual(turn?.content, [{ type: 'tool_use', id: 'c', name: 'patch', input: { input: 'a' } }])
  })

  it('is still called with free text for the client, streamed and not', () => {
    for (const format of [openaiChat, responses]) {
      const read = openaiChat.decodeRequest(request)
      assert.ok('request' in read)
      const options = { idsAndClock, request: read.request }
      const whole = format.decodeAnswer(format.encodeAnswer(called, options), { idsAndClock })
      assert.ok(!('error' in whole))
      const encoder = format.createStreamEncoder(options)
      const decoder = format.createStreamDecoder({ idsAndClock })
      const bytes = eventsOf(called).flatMap(event => encoder.push(event))
      const streamed = answerOf([...bytes.flatMap(piece => decoder.push(piece)), ...decoder.end()])
      assert.ok('answer' in streamed)
      for (const { choices } of [whole, streamed.answer]) {
        assert.deepEqual(choices[0]?.parts, [
          { type: 'toolCall', id: 'c', name: 'patch', arguments: 'a "b"\nc', isCustom: true },
        ])
      }
    }
  })
})

describe('the arguments of a call in a stream of messages', () => {
  const called = (pieces: readonly string[], isCustom: boolean): readonly ChatEvent[] => [
    {
      type: 'open',
      choice: 0,
      part: 0,
      content: { type: 'toolCall', id: 'c', name: 'patch', arguments: '', ...(isCustom && { isCustom }) },
    },
    ...pieces.map(text => ({ type: 'delta', choice: 0, part: 0, text }) as const),
    { type: 'close', choice: 0, part: 0 },
    { type: 'finish', choice: 0, stop: { reason: 'tools' } },
    { type: 'end' },
  ]

  /** The input of the one call, as the vendor's SDK parses it. */
  async function inputOf(events: readonly ChatEvent[]): Promise<unknown> {
    const encoder = anthropic.createStreamEncoder({ idsAndClock })
    const bytes = Buffer.concat(events.flatMap(event => encoder.push(event)))
    const [block] = (await GATHER.anthropic(bytes)).content
    return block?.type === 'tool_use' && block.input
  }

  const TEXTS = ['*** Begin Patch\n+"a"\\\n', '', ' ', '{"not": json', '\u0000\ud83d\ude00 é', '[1]', '{}']

  it('are one object for free text, however it is split', async () => {
    for (const text of TEXTS)
      for (const size of [1, 3, 100]) {
        const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, at) =>
          text.slice(at * size, (at + 1) * size),
        )
        assert.deepEqual(await inputOf(called(pieces, true)), { input: text })
      }
  })

  it('are one object for any output that does not start like one, as in a non-streamed response', async () => {
    for (const [pieces, input] of [
      [['call it ', '"so"'], { arguments: 'call it "so"' }],
      [['["a"', ']'], { arguments: '["a"]' }],
      [[' ', '"x"'], { arguments: ' "x"' }],
      [[' ', '{"a"', ':1}'], { a: 1 }],
      [[' '], {}],
      [[], {}],
    ] as const) {
      assert.deepEqual(await inputOf(called(pieces, false)), input)
      const part = { type: 'toolCall', id: 'c', name: 'patch', arguments: pieces.join('') } as const
      const answer = { id: 'a', model: 'm', choices: [{ parts: [part], stop: { reason: 'tools' } }] } as const
      const { content } = anthropic.encodeAnswer(answer, { idsAndClock }) as { content: { input: unknown }[] }
      assert.deepEqual(content[0]?.input, input)
    }
  })

  it('of a custom tool call in a Responses stream reach the SDK as its free text', async () => {
    const item = { type: 'custom_tool_call', id: 'ctc_1', call_id: 'c', name: 'patch', input: '' }
    const at = { output_index: 0, item_id: 'ctc_1' }
    const stream = [
      { type: 'response.created', response: { id: 'resp_1', model: 'm' } },
      { type: 'response.output_item.added', ...at, item },
      { type: 'response.custom_tool_call_input.delta', ...at, delta: 'say "hi"' },
      { type: 'response.custom_tool_call_input.delta', ...at, delta: '\nand go' },
      { type: 'response.custom_tool_call_input.done', ...at, input: 'say "hi"\nand go' },
      { type: 'response.output_item.done', ...at, item: { ...item, input: 'say "hi"\nand go' } },
      { type: 'response.completed', response: { id: 'resp_1', status: 'completed', output: [] } },
    ]
    const decoder = responses.createStreamDecoder({ idsAndClock })
    const bytes = stream.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
    const events = [...decoder.push(Buffer.from(bytes)), ...decoder.end()]
    assert.deepEqual(await inputOf(events), { input: 'say "hi"\nand go' })
  })
})

describe('warnings', () => {
  it('mention only what the client sent', () => {
    const read = openaiChat.decodeRequest({
      model: 'm',
      messages: [{ role: 'user', content: 'x', audio: null }],
      metadata: null,
      functions: null,
    })
    assert.ok('request' in read)
    assert.deepEqual(anthropic.encodeRequest(read.request).warnings, [])
  })

  it('name the fields of an object that is otherwise supported, which its own vendor gets', () => {
    const messages = [{ role: 'user', content: 'Hi' }]
    const budget = { type: 'tokens', total: 9_000 }
    const claude = {
      model: 'claude-opus-4-6',
      max_tokens: 3_000,
      messages,
      output_config: { effort: 'low', task_budget: budget },
      thinking: { type: 'between_tools' },
    }
    const gpt = {
      model: 'gpt-5.1',
      input: 'Hi',
      reasoning: { effort: 'high', mode: 'pro', context: null },
      text: { verbosity: 'low', tone: 'dry' },
    }
    assert.deepEqual(translate(anthropic, openaiChat, claude).warned, [
      'thinking',
      'output_config.task_budget',
    ])
    const { body, warned } = translate(anthropic, anthropic, claude)
    assert.deepEqual([body.output_config, body.thinking, warned], [claude.output_config, claude.thinking, []])
    assert.deepEqual(translate(responses, openaiChat, gpt).warned, ['text.tone', 'reasoning.mode'])
    const own = translate(responses, responses, gpt)
    assert.deepEqual([own.body.reasoning, own.body.text, own.warned], [gpt.reasoning, gpt.text, []])
  })

  it('name unknown fields of the thinking and the function calls of Gemini, which Gemini itself gets', () => {
    const request = {
      model: 'gemini-2.5-pro',
      contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
      tools: [{ functionDeclarations: [{ name: 'f' }] }],
      toolConfig: { functionCallingConfig: { mode: 'ANY', streamFunctionCallArguments: true } },
      generationConfig: { thinkingConfig: { thinkingBudget: 200, includeThoughts: true, depth: 2 } },
    }
    for (const format of [openaiChat, anthropic, responses])
      assert.deepEqual(
        translate(gemini, format, request).warned.filter(field => field.includes('Config.')),
        [
          'generationConfig.thinkingConfig.depth',
          'toolConfig.functionCallingConfig.streamFunctionCallArguments',
        ],
      )
    const own = translate(gemini, gemini, request)
    assert.deepEqual(own.body.toolConfig, request.toolConfig)
    assert.deepEqual(own.body.generationConfig, request.generationConfig)
    assert.deepEqual(own.warned, [])
  })

  it('name the obfuscation of a stream, unless the client does not want any', () => {
    const chat = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], stream: true }
    const response = { model: 'm', input: 'Hi', stream: true }
    const options = { stream_options: { include_obfuscation: true } }
    const plain = { stream_options: { include_obfuscation: false } }
    for (const [format, request] of [
      [openaiChat, chat],
      [responses, response],
    ] as const) {
      const loss = translate(format, anthropic, { ...request, ...options })
      assert.deepEqual(loss.warned, ['stream_options.include_obfuscation'])
      assert.deepEqual(translate(format, anthropic, { ...request, ...plain }).warned, [])
      const own = translate(format, format, { ...request, ...options })
      assert.equal(member(own.body.stream_options, 'include_obfuscation'), true)
    }
  })

  it('name a format of the answer that only some hosts have, which they get', () => {
    const format = { type: 'grammar', grammar: 'root ::= "a"' }
    const chat = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], response_format: format }
    assert.deepEqual(translate(openaiChat, anthropic, chat).warned, ['response_format'])
    assert.deepEqual(translate(openaiChat, openaiChat, chat).body.response_format, format)
    const response = { model: 'm', input: 'Hi', text: { format } }
    assert.deepEqual(translate(responses, anthropic, response).warned, ['text.format'])
    assert.deepEqual(translate(responses, responses, response).body.text, { format })
    const plain = { ...chat, response_format: { type: 'text' } }
    assert.deepEqual(translate(openaiChat, anthropic, plain).warned, [])
  })

  it('fit into a header whatever the client sent', () => {
    const warnings = createWarnings('x')
    warnings.foreign('', { extras: { y: { 'naïve\r\nset-cookie': 1 }, x: { fine: 1 } } })
    const header = warningsHeader(warnings.list())
    assert.match(header, /^na\?ve\?\?set-cookie: has no counterpart and was left out$/)
  })

  it('are sent once, and limited in number', () => {
    const warnings = createWarnings('x')
    for (let at = 0; at < 100; at++) warnings.lost('same', 'thing')
    for (let at = 0; at < 100; at++) warnings.lost(`field${at}`, 'left out')
    assert.equal(warnings.list().length, 32)
    assert.equal(warnings.list().filter(({ field }) => field === 'same').length, 1)
  })

  it('report lost content, however many parameters are lost before it', () => {
    const warnings = createWarnings('x')
    for (let at = 0; at < 100; at++) warnings.lost(`field${at}`, 'left out')
    warnings.lostContent('messages[0].content[0]', 'media of the type audio cannot be sent')
    warnings.lostContent('messages[0].content[1]', 'media of the type video cannot be sent')
    assert.equal(warnings.list().length, 32)
    assert.deepEqual(
      warnings.list().filter(({ lostContent }) => lostContent !== undefined),
      [
        {
          field: 'messages[0].content[0]',
          message: 'media of the type audio cannot be sent and was left out',
          lostContent: 'media of the type audio cannot be sent',
        },
      ],
    )
  })
})

describe('an image of an answer that a client of chat completions sends back', () => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
  const request = {
    model: 'm',
    messages: [
      { role: 'user', content: 'Draw' },
      { role: 'assistant', content: 'Here', images: [image] },
      { role: 'user', content: 'Bluer' },
    ],
  }

  it('is sent to the vendor', () => {
    const { body, warned } = translate(openaiChat, gemini, request)
    const [, turn] = body.contents as { parts: unknown }[]
    const inlineData = { mimeType: 'image/png', data: 'AAAA' }
    assert.deepEqual([turn?.parts, warned], [[{ text: 'Here' }, { inlineData }], []])
  })

  it('is sent as an image of the user to vendors that accept no other images', () => {
    const { body, warned } = translate(openaiChat, anthropic, { ...request, max_tokens: 9 })
    const source = { type: 'base64', media_type: 'image/png', data: 'AAAA' }
    const drawn = [
      { type: 'text', text: 'Bluer' },
      { type: 'image', source },
    ]
    assert.deepEqual(body.messages, [
      { role: 'user', content: 'Draw' },
      { role: 'assistant', content: 'Here' },
      { role: 'user', content: drawn },
    ])
    assert.deepEqual(warned, ['messages[1]'])
    for (const format of [bedrock, cohere, responses, openaiChat]) {
      const { body, warned } = translate(openaiChat, format, request)
      const { messages = body.input } = body
      const [, turn, last] = messages as object[]
      assert.doesNotMatch(JSON.stringify(turn), /AAAA/, format.name)
      assert.match(JSON.stringify(last), /AAAA/, format.name)
      assert.ok(warned.includes('messages[1]'), format.name)
    }
  })

  it('ends a conversation without another message of the user', () => {
    const { body } = translate(openaiChat, responses, { ...request, messages: request.messages.slice(0, 2) })
    const [, , last] = body.input as object[]
    const input = { type: 'input_image', image_url: image.image_url.url }
    assert.deepEqual(last, { role: 'user', content: [input] })
  })
})

describe('lost content', () => {
  const SOUND = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }
  const decoded = (format: Format, body: object) => {
    const read = format.decodeRequest({ model: 'm', max_tokens: 9, ...body })
    assert.ok('request' in read, JSON.stringify(read))
    return read.request
  }
  const lostIn = (from: Format, to: Outbound, body: object) => {
    const request = decoded(from, body)
    return withClientPaths(request, to.encodeRequest(request).warnings).flatMap(({ field, lostContent }) =>
      lostContent === undefined ? [] : [field],
    )
  }

  it('is what no field of the format can hold: other losses are parameters', () => {
    const sounding = { messages: [{ role: 'user', content: [SOUND] }], seed: 7, logprobs: true, tools: [] }
    for (const format of [anthropic, cohere, ollama, responses])
      assert.deepEqual(lostIn(openaiChat, format, sounding), ['messages[0].content[0]'], format.name)
    for (const format of [openaiChat, gemini, bedrock])
      assert.deepEqual(lostIn(openaiChat, format, sounding), [], format.name)
  })

  it('may be media of an earlier answer, but not the tools that another vendor ran for it', () => {
    const turn = {
      role: 'model',
      parts: [{ inlineData: { mimeType: 'audio/wav', data: 'AAAA' } }, { executableCode: { code: '1' } }],
    }
    const contents = [{ parts: [{ text: 'x' }] }, turn, { parts: [{ executableCode: { code: '1' } }] }]
    const request = decoded(gemini, { contents })
    const warnings = withClientPaths(request, anthropic.encodeRequest(request).warnings)
    assert.deepEqual(
      warnings.map(({ field, lostContent }) => [field, lostContent !== undefined]),
      [
        ['max_tokens', false],
        ['contents[1].parts[0]', true],
        ['contents[1].parts[1]', false],
        ['contents[2].parts[0]', true],
      ],
    )
  })

  it('is found after many tools that another vendor ran', () => {
    const search = (id: number) => ({ type: 'server_tool_use', id: `s${id}`, name: 'web_search', input: {} })
    const messages = [
      { role: 'user', content: 'x' },
      { role: 'assistant', content: Array.from({ length: 40 }, (_, at) => search(at)) },
      { role: 'user', content: [{ type: 'document', source: { type: 'file', file_id: 'file_1' } }] },
    ]
    for (const format of [openaiChat, responses, gemini, bedrock, cohere, ollama])
      assert.deepEqual(lostIn(anthropic, format, { messages }), ['messages[2].content[0]'], format.name)
  })

  it('is a stored file of another vendor', () => {
    const file = { type: 'document', source: { type: 'file', file_id: 'file_1' } }
    const body = { system: 'x', messages: [{ role: 'user', content: [file] }] }
    for (const format of [openaiChat, responses, gemini, bedrock, cohere, ollama])
      assert.deepEqual(lostIn(anthropic, format, body), ['messages[0].content[0]'], format.name)
    assert.deepEqual(lostIn(anthropic, anthropic, body), [])
  })

  it('is never a function: every format has functions, and tools with free text become functions', () => {
    const tools = [
      { type: 'function', function: { name: 'get_weather', parameters: SCHEMA } },
      { type: 'custom', custom: { name: 'run_code' } },
    ]
    const request = decoded(openaiChat, { messages: [{ role: 'user', content: 'x' }], tools })
    for (const format of [openaiChat, anthropic, responses, gemini, bedrock, cohere, ollama]) {
      const { body, warnings } = format.encodeRequest(request)
      for (const name of ['get_weather', 'run_code'])
        assert.ok(JSON.stringify(body).includes(name), format.name)
      assert.ok(warnings.every(({ lostContent }) => lostContent === undefined))
    }
  })

  it('may be in instructions', () => {
    const picture = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }
    const body = { messages: [{ role: 'system', content: [{ type: 'text', text: 'x' }, picture] }] }
    assert.deepEqual(lostIn(openaiChat, bedrock, body), ['messages[0].content[1]'])
  })
})

describe('a refusal of the model', () => {
  const answer: ChatAnswer = {
    id: 'a',
    model: 'm',
    choices: [{ parts: [{ type: 'refusal', text: 'I cannot.' }], stop: { reason: 'stop' } }],
  }
  const bytesOf = (format: Format) => {
    const encoder = format.createStreamEncoder({ idsAndClock })
    return Buffer.concat(eventsOf(answer).flatMap(event => encoder.push(event))).toString()
  }

  it('stops an answer as the format does it if the format has no field for it', () => {
    const refused = /"stop_reason":"refusal"/
    assert.match(JSON.stringify(anthropic.encodeAnswer(answer, { idsAndClock })), refused)
    assert.match(bytesOf(anthropic), refused)
    const filtered = /"finishReason":"SAFETY"/
    assert.match(JSON.stringify(gemini.encodeAnswer(answer, { idsAndClock })), filtered)
    assert.match(bytesOf(gemini), filtered)
  })

  it('stays a refusal in the formats that have one', () => {
    for (const format of [openaiChat, responses]) {
      assert.match(bytesOf(format), /"refusal":"I cannot\."/)
      assert.doesNotMatch(bytesOf(format), /content_filter/)
    }
  })
})

describe('the output format of Anthropic’s beta', () => {
  const format = { type: 'json_schema', schema: SCHEMA }
  const ask = (more: object) => ({
    model: 'm',
    max_tokens: 9,
    messages: [{ role: 'user', content: 'x' }],
    ...more,
  })

  it('is translated like output_config.format, alone and beside it', () => {
    const translation = translate(anthropic, openaiChat, ask({ output_config: { format } }))
    assert.deepEqual(translation.warned, [])
    for (const more of [{ output_format: format }, { output_format: format, output_config: { format } }])
      assert.deepEqual(translate(anthropic, openaiChat, ask(more)), translation)
    const effort = { output_format: format, output_config: { effort: 'low' } }
    assert.deepEqual(
      translate(anthropic, openaiChat, ask(effort)).body.response_format,
      translation.body.response_format,
    )
  })

  it('is rejected if it differs from output_config.format', () => {
    const other = { type: 'json_schema', schema: { type: 'string' } }
    const read = anthropic.decodeRequest(ask({ output_format: format, output_config: { format: other } }))
    assert.ok('fault' in read)
    assert.deepEqual([read.fault.code, read.fault.param], ['invalid_parameter', 'output_format'])
  })
})

describe('the event meter', () => {
  it('counts the output text, and reasoning separately', () => {
    const meter = createEventMeter()
    const answer: ChatAnswer = {
      id: 'a',
      model: 'm',
      choices: [
        {
          parts: [
            { type: 'reasoning', text: 'ähm' },
            { type: 'text', text: 'Ja' },
            { type: 'toolCall', id: 'c', name: 'go', arguments: '{}' },
          ],
          stop: { reason: 'tools' },
        },
      ],
    }
    for (const event of eventsOf(answer)) meter.read(event)
    const { textBytes, reasoningBytes, contentEvents, error } = meter.reading
    assert.deepEqual([textBytes, reasoningBytes, error], [6, 4, undefined])
    assert.ok(contentEvents > 0)
    assert.equal(meter.ending(), 'complete')
    assert.equal(meter.sample.text(), 'ähmJago{}')
  })
})
