import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { BODY_LIMIT } from '../../simulator/body.ts'
import type { CountLine } from '../../simulator/count.ts'
import { sampleOf } from '../../simulator/schema.ts'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { bound, steer } from '../../simulator/steering.ts'
import { countTokens, splitTokens } from '../../simulator/tokens.ts'

const KEY = 'sk-simulator-test-1234'
const CHAT = '/v1/chat/completions'

type Usage = {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  prompt_tokens_details: { cached_tokens: number }
  completion_tokens_details: { reasoning_tokens: number }
}
type ToolCall = {
  index?: number
  id?: string
  type?: string
  function?: { name?: string; arguments: string }
  custom?: { name?: string; input: string }
}
type Completion = {
  id: string
  object: string
  model: string
  created: number
  choices: {
    index: number
    message: { role: string; content: string | null; tool_calls?: ToolCall[] }
    finish_reason: string
  }[]
  usage: Usage
}
type Chunk = {
  id: string
  object: string
  choices: {
    index: number
    delta: { role?: string; content?: string | null; tool_calls?: ToolCall[] }
    finish_reason: string | null
  }[]
  usage?: Usage | null
}
type Failure = { error: { message: string; type: string; param: string | null; code: string | null } }

const folder = mkdtempSync(join(tmpdir(), 'simulator-'))
const countFile = join(folder, 'count.jsonl')
let simulator: Simulator

before(async () => {
  simulator = await startSimulator({ countFile, now: () => Date.UTC(2025, 0, 31, 12) })
})
after(async () => {
  await simulator.close()
  rmSync(folder, { recursive: true })
})

const user = (content: unknown) => ({ role: 'user', content })
const headersWith = (extra: Record<string, string> = {}) => ({
  authorization: `Bearer ${KEY}`,
  'content-type': 'application/json',
  ...extra,
})

function post(body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return fetch(simulator.url + CHAT, { method: 'POST', headers: headersWith(headers), body: text })
}

async function complete(body: object, headers?: Record<string, string>): Promise<Completion> {
  const response = await post({ model: 'sim-small', messages: [user('Hello there')], ...body }, headers)
  assert.equal(response.status, 200)
  assert.equal(response.headers.get('content-type'), 'application/json')
  return (await response.json()) as Completion
}

async function stream(body: object, headers?: Record<string, string>) {
  const request = { model: 'sim-small', messages: [user('Hello there')], stream: true, ...body }
  const response = await post(request, headers)
  assert.equal(response.status, 200)
  assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
  const events = (await response.text()).split('\n\n')
  assert.equal(events.pop(), '', 'the last event ends with a blank line')
  assert.equal(events.pop(), 'data: [DONE]')
  return events.map(event => {
    assert.ok(event.startsWith('data: '))
    return JSON.parse(event.slice('data: '.length)) as Chunk
  })
}

async function failure(response: Response): Promise<Failure['error'] & { status: number }> {
  const { error } = (await response.json()) as Failure
  assert.deepEqual(Object.keys(error), ['message', 'type', 'param', 'code'])
  return { status: response.status, ...error }
}

function countLines(file = countFile): CountLine[] {
  const lines = readFileSync(file, 'utf8').split('\n')
  assert.equal(lines.pop(), '', 'every line is whole')
  return lines.map(line => JSON.parse(line) as CountLine)
}

function countLinesOf(clientRequestId: string, file = countFile): CountLine[] {
  return countLines(file).filter(line => line.client_request_id === clientRequestId)
}

/** Waits for something that must happen soon; the runner's time limit ends a wait in vain. */
async function eventually<T>(look: () => T | undefined): Promise<T> {
  for (;;) {
    const result = look()
    if (result !== undefined) return result
    await sleep(5)
  }
}

/** A client that has sent a request and does not read the response by itself. */
async function open(url: string, body: object, headers: Record<string, string>) {
  const clientRequest = httpRequest(url + CHAT, {
    method: 'POST',
    headers: headersWith(headers),
    agent: false,
  })
  clientRequest.on('error', () => {})
  clientRequest.end(JSON.stringify({ messages: [user('Hello there')], ...body }))
  const [response] = (await once(clientRequest, 'response')) as [IncomingMessage]
  response.on('error', () => {})
  return { response, leave: () => clientRequest.destroy() }
}

const only = <T>(list: readonly T[]): T => {
  assert.equal(list.length, 1)
  return list[0] as T
}
const contentOf = (chunks: readonly Chunk[], index = 0) =>
  chunks
    .flatMap(chunk => chunk.choices)
    .filter(choice => choice.index === index)
    .map(choice => choice.delta.content ?? '')
    .join('')

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string' },
        unit: { enum: ['celsius', 'fahrenheit'] },
        days: { type: 'integer' },
      },
      required: ['city'],
    },
  },
}
const clock = {
  type: 'function',
  function: { name: 'get_time', parameters: { type: 'object', properties: {} } },
}
const expression = { type: 'custom', custom: { name: 'write_sum' } }

describe('the counting rule', () => {
  for (const [text, count] of [
    ['', 0],
    ['word', 1],
    ['two words', 2],
    ['Stop! Now.', 4],
    ['snake_case and 42', 3],
    ['garçon Привет', 2],
    ['你好', 2],
    ['🙂🙂', 2],
    ['   leading', 1],
    ['trailing \n', 2],
    [' ', 1],
  ] as const) {
    it(`finds ${count} tokens in ${JSON.stringify(text)}`, () => {
      assert.equal(countTokens(text), count)
      assert.equal(splitTokens(text).length, count)
      assert.equal(splitTokens(text).join(''), text)
    })
  }

  it('never finds more tokens than bytes', () => {
    for (let point = 1; point < 0x3000; point += 1) {
      const text = String.fromCodePoint(point).repeat(3)
      assert.ok(countTokens(text) <= Buffer.byteLength(text), `U+${point.toString(16)}`)
    }
  })
})

describe('a non-streamed chat completion', () => {
  it('has OpenAI’s format and repeats the last user message', async () => {
    const completion = await complete({
      messages: [user('First'), { role: 'assistant', content: 'Yes?' }, user('Tell me about rivers')],
    })
    const choice = only(completion.choices)
    assert.match(completion.id, /^chatcmpl-/)
    assert.equal(completion.object, 'chat.completion')
    assert.equal(completion.model, 'sim-small')
    assert.equal(completion.created, Date.UTC(2025, 0, 31, 12) / 1000)
    assert.equal(choice.message.role, 'assistant')
    assert.match(choice.message.content ?? '', /"Tell me about rivers"/)
    assert.equal(choice.finish_reason, 'stop')
  })

  it('is the same for the same request, except for its id', async () => {
    const [one, other] = [await complete({}), await complete({})]
    assert.notEqual(one.id, other.id)
    assert.deepEqual({ ...one, id: '' }, { ...other, id: '' })
  })

  it('counts prompt and output by the rule', async () => {
    const { choices, usage } = await complete({
      messages: [{ role: 'system', content: 'Be brief.' }, user([{ type: 'text', text: 'Hi, you!' }])],
    })
    const completionTokens = countTokens(only(choices).message.content ?? '')
    assert.equal(usage.prompt_tokens, countTokens('Be brief.') + countTokens('Hi, you!'))
    assert.equal(usage.completion_tokens, completionTokens)
    assert.equal(usage.total_tokens, usage.prompt_tokens + completionTokens)
    assert.equal(usage.prompt_tokens_details.cached_tokens, 0)
    assert.equal(usage.completion_tokens_details.reasoning_tokens, 0)
  })

  it('counts tools, earlier calls, schemas and parts that are not text', async () => {
    const schema = { name: 'x', schema: { type: 'object', properties: {} } }
    const call = {
      id: 'call_1',
      type: 'function',
      function: { name: 'get_time', arguments: '{"zone": "UTC"}' },
    }
    const { usage } = await complete({
      messages: [
        user([{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }]),
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'call_1', content: 'noon' },
      ],
      tools: [clock],
      response_format: { type: 'json_schema', json_schema: schema },
    })
    const expected = ['get_time', '{"zone": "UTC"}', 'noon', JSON.stringify([clock]), JSON.stringify(schema)]
    assert.equal(
      usage.prompt_tokens,
      expected.reduce((sum, text) => sum + countTokens(text), 85),
    )
  })

  it('gives n distinct choices and bills them together', async () => {
    const { choices, usage } = await complete({ n: 3 })
    const texts = choices.map(choice => choice.message.content ?? '')
    assert.deepEqual(
      choices.map(choice => choice.index),
      [0, 1, 2],
    )
    assert.equal(new Set(texts).size, 3)
    assert.equal(
      usage.completion_tokens,
      texts.reduce((sum, text) => sum + countTokens(text), 0),
    )
  })

  for (const limit of ['max_tokens', 'max_completion_tokens']) {
    it(`is truncated at ${limit} with the finish reason length`, async () => {
      const whole = await complete({})
      const { choices, usage } = await complete({ [limit]: 5 })
      const choice = only(choices)
      const expected = splitTokens(only(whole.choices).message.content ?? '').slice(0, 5)
      assert.equal(choice.finish_reason, 'length')
      assert.equal(choice.message.content, expected.join(''))
      assert.equal(usage.completion_tokens, 5)
    })
  }

  it('is not truncated by a limit it exactly reaches', async () => {
    const { choices } = await complete({ model: 'sim-words-5', max_tokens: 5 })
    assert.equal(only(choices).finish_reason, 'stop')
  })

  it('repeats a long message in part only', async () => {
    const { choices } = await complete({ messages: [user('rivers '.repeat(1000))] })
    const content = only(choices).message.content ?? ''
    assert.ok(content.length < 600)
    assert.match(content, /rivers …"/)
  })
})

describe('a streamed chat completion', () => {
  it('is the complete response in many chunks: role, content, finish reason', async () => {
    const chunks = await stream({})
    const whole = await complete({})
    const text = only(whole.choices).message.content
    assert.equal(contentOf(chunks), text)
    assert.equal(chunks.length, countTokens(text ?? '') + 2)
    assert.deepEqual(chunks[0]?.choices[0]?.delta, { role: 'assistant', content: '', refusal: null })
    assert.deepEqual(chunks.at(-1)?.choices[0], {
      index: 0,
      delta: {},
      logprobs: null,
      finish_reason: 'stop',
    })
    assert.ok(chunks.slice(0, -1).every(chunk => chunk.choices[0]?.finish_reason === null))
    assert.ok(chunks.every(chunk => chunk.object === 'chat.completion.chunk' && chunk.id === chunks[0]?.id))
  })

  it('has no usage unless requested', async () => {
    const chunks = await stream({ stream_options: { include_usage: false } })
    assert.ok(chunks.every(chunk => !('usage' in chunk) && chunk.choices.length === 1))
  })

  it('ends with a chunk of usage and no choices if requested', async () => {
    const chunks = await stream({ stream_options: { include_usage: true } })
    const last = chunks.at(-1)
    const { usage } = await complete({})
    assert.deepEqual(last?.choices, [])
    assert.deepEqual(last?.usage, usage)
    assert.ok(chunks.slice(0, -1).every(chunk => chunk.usage === null))
  })

  it('interleaves several choices', async () => {
    const chunks = await stream({ n: 2, model: 'sim-words-3' })
    assert.deepEqual(
      chunks.map(chunk => chunk.choices[0]?.index),
      [0, 1, 0, 1, 0, 1, 0, 1, 0, 1],
    )
    assert.equal(contentOf(chunks, 0), contentOf(chunks, 1))
  })

  it('is truncated at max_tokens with the finish reason length', async () => {
    const chunks = await stream({ max_tokens: 4, stream_options: { include_usage: true } })
    assert.equal(countTokens(contentOf(chunks)), 4)
    assert.equal(chunks.at(-2)?.choices[0]?.finish_reason, 'length')
    assert.equal(chunks.at(-1)?.usage?.completion_tokens, 4)
  })
})

describe('a request with tools', () => {
  const ask = (content: string, body: object = {}) =>
    complete({ messages: [user(content)], tools: [weather, clock], ...body })
  const namesIn = ({ choices }: Completion) =>
    only(choices).message.tool_calls?.map(call => call.function?.name)

  it('gets text if no tool is requested', async () => {
    assert.equal(namesIn(await ask('How are you?')), undefined)
  })

  it('calls several at once if the user requests tools', async () => {
    const completion = await ask('Use your tools, please')
    const choice = only(completion.choices)
    const calls = choice.message.tool_calls ?? []
    assert.equal(choice.finish_reason, 'tool_calls')
    assert.equal(choice.message.content, null)
    assert.deepEqual(namesIn(completion), ['get_weather', 'get_time'])
    assert.equal(new Set(calls.map(call => call.id)).size, 2)
    assert.deepEqual(JSON.parse(calls[0]?.function?.arguments ?? ''), {
      city: 'simulated city',
      unit: 'celsius',
      days: 1,
    })
    assert.equal(
      completion.usage.completion_tokens,
      calls.reduce(
        (sum, { function: called }) =>
          sum + countTokens(called?.name ?? '') + countTokens(called?.arguments ?? ''),
        0,
      ),
    )
  })

  it('calls only one if parallel calls are disabled', async () => {
    assert.deepEqual(namesIn(await ask('Use your tools', { parallel_tool_calls: false })), ['get_weather'])
  })

  it('calls the one that the user names', async () => {
    assert.deepEqual(namesIn(await ask('Run get_time now')), ['get_time'])
  })

  it('calls none when tool_choice is none', async () => {
    assert.equal(namesIn(await ask('Use a tool', { tool_choice: 'none' })), undefined)
  })

  it('calls what tool_choice requires, requested or not', async () => {
    const toolChoice = { type: 'function', function: { name: 'get_time' } }
    const allowed = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [toolChoice] } }
    assert.deepEqual(namesIn(await ask('Hello', { tool_choice: 'required' })), ['get_weather', 'get_time'])
    assert.deepEqual(namesIn(await ask('Hello', { tool_choice: toolChoice })), ['get_time'])
    assert.deepEqual(namesIn(await ask('Hello', { tool_choice: allowed })), ['get_time'])
  })

  it('is refused if tool_choice names a tool that is not offered', async () => {
    const tool_choice = { type: 'function', function: { name: 'get_rich' } }
    const response = await post({
      model: 'sim-small',
      messages: [user('Hello')],
      tools: [clock],
      tool_choice,
    })
    const { status, param } = await failure(response)
    assert.deepEqual({ status, param }, { status: 400, param: 'tool_choice' })
  })

  it('ends the loop: a result is followed by text about it', async () => {
    const first = only((await ask('Use a tool')).choices).message
    const result = { role: 'tool', tool_call_id: first.tool_calls?.[0]?.id, content: 'My tool says sunny' }
    const { choices } = await complete({ messages: [user('Use a tool'), first, result], tools: [weather] })
    assert.match(only(choices).message.content ?? '', /The tool answered: "My tool says sunny"/)
  })

  it('gives a custom tool free text', async () => {
    const { choices } = await ask('A tool for four plus four', { tools: [expression] })
    const { id, ...call } = only(only(choices).message.tool_calls ?? [])
    assert.match(id ?? '', /^call_/)
    assert.deepEqual(call, {
      type: 'custom',
      custom: { name: 'write_sum', input: 'A tool for four plus four' },
    })
  })

  it('streams each call as a start and parts of its arguments', async () => {
    const body = { messages: [user('Use your tools')], tools: [weather, expression] }
    const whole = only((await complete(body)).choices).message.tool_calls ?? []
    const chunks = await stream({ ...body, stream_options: { include_usage: true } })
    const deltas = chunks.flatMap(chunk => chunk.choices[0]?.delta.tool_calls ?? [])
    const of = (index: number) => deltas.filter(delta => delta.index === index)
    assert.deepEqual(chunks[0]?.choices[0]?.delta, { role: 'assistant', content: null, refusal: null })
    assert.equal(chunks.at(-2)?.choices[0]?.finish_reason, 'tool_calls')
    assert.deepEqual(of(0)[0]?.function, { name: 'get_weather', arguments: '' })
    assert.deepEqual(of(1)[0]?.custom, { name: 'write_sum', input: '' })
    assert.ok(
      [...of(0).slice(1), ...of(1).slice(1)].every(
        delta => delta.id === undefined && delta.type === undefined,
      ),
    )
    assert.equal(
      of(0)
        .map(delta => delta.function?.arguments)
        .join(''),
      whole[0]?.function?.arguments,
    )
    assert.equal(
      of(1)
        .map(delta => delta.custom?.input)
        .join(''),
      whole[1]?.custom?.input,
    )
  })

  it('is truncated at max_tokens inside the arguments, and bills no more', async () => {
    const { choices, usage } = await ask('Use your tools', { max_tokens: 4 })
    const choice = only(choices)
    const call = only(choice.message.tool_calls ?? [])
    assert.equal(choice.finish_reason, 'length')
    assert.equal(call.function?.name, 'get_weather')
    assert.equal(countTokens(call.function?.arguments ?? ''), 3)
    assert.equal(usage.completion_tokens, 4)
  })
})

describe('a request for JSON', () => {
  const contentFor = async (response_format: object) => {
    const { choices } = await complete({ response_format })
    return JSON.parse(only(choices).message.content ?? '') as unknown
  }

  it('gets an object for json_object', async () => {
    const value = (await contentFor({ type: 'json_object' })) as { answer: string }
    assert.match(value.answer, /"Hello there"/)
  })

  it('gets a value of the schema for json_schema, references included', async () => {
    const step = { type: 'object', properties: { output: { type: 'string' } }, required: ['output'] }
    const schema = {
      $defs: { Step: step },
      type: 'object',
      properties: {
        steps: { type: 'array', items: { $ref: '#/$defs/Step' }, minItems: 2 },
        mood: { enum: ['calm', 'wild'] },
        ratio: { type: 'number', minimum: 0.25, maximum: 0.75 },
        note: { anyOf: [{ type: 'null' }, { type: 'string', maxLength: 4 }] },
      },
    }
    const value = await contentFor({ type: 'json_schema', json_schema: { name: 'x', strict: true, schema } })
    assert.deepEqual(value, {
      steps: [{ output: 'simulated output' }, { output: 'simulated output' }],
      mood: 'calm',
      ratio: 0.5,
      note: 'simu',
    })
  })

  it('streams it like any text', async () => {
    const chunks = await stream({ response_format: { type: 'json_object' } })
    assert.ok(chunks.length > 10)
    assert.doesNotThrow(() => JSON.parse(contentOf(chunks)))
  })
})

describe('a sample of a schema', () => {
  const samples: readonly (readonly [schema: unknown, expected: unknown])[] = [
    [{ type: 'integer', minimum: 7 }, 7],
    [{ type: 'integer', exclusiveMinimum: 7 }, 8],
    [{ type: 'integer', maximum: -3 }, -3],
    [{ type: 'integer', exclusiveMaximum: 0 }, -1],
    [{ type: 'integer', minimum: 10, multipleOf: 4 }, 12],
    [{ type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 }, 0.5],
    [{ type: ['null', 'boolean'] }, true],
    [{ const: null }, null],
    [{ type: 'string', format: 'date' }, '2025-01-31'],
    [{ type: 'string', minLength: 20 }, 'simulated answer....'],
    [{ type: 'array', items: { type: 'boolean' }, maxItems: 0 }, []],
    [{ type: 'array', prefixItems: [{ type: 'boolean' }, { type: 'null' }] }, [true, null]],
    [
      { allOf: [{ properties: { a: { type: 'null' } } }, { properties: { b: { type: 'null' } } }] },
      { a: null, b: null },
    ],
    [{ type: 'object', properties: { toString: { type: 'null' } } }, { toString: null }],
    [true, 'simulated answer'],
  ]
  for (const [schema, expected] of samples) {
    it(`satisfies ${JSON.stringify(schema)}`, () => {
      assert.deepEqual(sampleOf(schema, 'answer'), expected)
    })
  }

  it('ends, and stays small, for a recursive schema', () => {
    const properties = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`p${at}`, { $ref: '#' }]))
    const schema = { type: 'object', properties, required: Object.keys(properties) }
    assert.ok(JSON.stringify(sampleOf(schema, 'answer')).length < 200_000)
  })
})

describe('the list of models', () => {
  const get = (path: string) => fetch(simulator.url + path, { headers: headersWith() })

  it('has simulated models and some with a public price', async () => {
    const list = (await (await get('/v1/models')).json()) as { object: string; data: { id: string }[] }
    const ids = list.data.map(model => model.id)
    assert.equal(list.object, 'list')
    for (const id of ['sim-small', 'sim-large', 'gpt-4o-mini']) assert.ok(ids.includes(id), id)
  })

  it('shows one model, also one whose name has control words', async () => {
    for (const id of ['gpt-4o-mini', 'sim-words-7']) {
      const { created, ...model } = (await (await get(`/v1/models/${id}`)).json()) as Record<string, unknown>
      const owner = id.startsWith('sim-') ? 'simulator' : 'openai'
      assert.equal(typeof created, 'number')
      assert.deepEqual(model, { id, object: 'model', owned_by: owner })
    }
  })

  it('has no unknown model', async () => {
    for (const id of ['gpt-0', '%E0%A4%A']) {
      const { status, code } = await failure(await get(`/v1/models/${id}`))
      assert.deepEqual({ status, code }, { status: 404, code: 'model_not_found' })
    }
  })
})

describe('a refusal in OpenAI’s format', () => {
  for (const [name, authorization] of [
    ['no key', undefined],
    ['an empty bearer', 'Bearer '],
    ['another scheme', 'Basic abcd'],
  ] as const) {
    it(`is 401 for ${name}`, async () => {
      const headers: Record<string, string> = authorization === undefined ? {} : { authorization }
      const body = JSON.stringify({ model: 'sim-small', messages: [user('Hello')] })
      const { status, type } = await failure(
        await fetch(simulator.url + CHAT, { method: 'POST', headers, body }),
      )
      assert.deepEqual({ status, type }, { status: 401, type: 'invalid_request_error' })
    })
  }

  it('is 404 for an unknown path, even without a key', async () => {
    const { status, type } = await failure(await fetch(`${simulator.url}/v1/nothing`))
    assert.deepEqual({ status, type }, { status: 404, type: 'invalid_request_error' })
  })

  it('is 405 for the wrong method', async () => {
    assert.equal((await failure(await fetch(simulator.url + CHAT))).status, 405)
  })

  for (const [name, body, param] of [
    ['a body that is not JSON', '{"model":', null],
    ['an empty body', '', null],
    ['a body that is no object', '[]', null],
    ['no model', { messages: [user('Hello')] }, 'model'],
    ['no messages', { model: 'sim-small' }, 'messages'],
    ['messages that are no list', { model: 'sim-small', messages: 'Hello' }, 'messages'],
    ['a message that is no object', { model: 'sim-small', messages: ['Hello'] }, 'messages'],
    ['an empty list of messages', { model: 'sim-small', messages: [] }, 'messages'],
    ['max_tokens of 0', { model: 'sim-small', messages: [user('Hello')], max_tokens: 0 }, 'max_tokens'],
    ['n of 129', { model: 'sim-small', messages: [user('Hello')], n: 129 }, 'n'],
    ['n that is a text', { model: 'sim-small', messages: [user('Hello')], n: '2' }, 'n'],
  ] as const) {
    it(`is 400 for ${name}`, async () => {
      const refused = await failure(await post(body))
      assert.equal(refused.status, 400)
      assert.equal(refused.param, param)
    })
  }

  it('is 413 for a body above 64 MiB, declared or not', async () => {
    const size = BODY_LIMIT + 1
    const announced = await fetch(simulator.url + CHAT, {
      method: 'POST',
      headers: headersWith(),
      body: Buffer.alloc(size),
    })
    assert.equal((await failure(announced)).status, 413)
    const clientRequest = httpRequest(simulator.url + CHAT, {
      method: 'POST',
      headers: headersWith(),
      agent: false,
    })
    clientRequest.write(Buffer.alloc(size))
    clientRequest.end()
    const [response] = (await once(clientRequest, 'response')) as [IncomingMessage]
    assert.equal(clientRequest.getHeader('content-length'), undefined)
    assert.equal(response.statusCode, 413)
    response.resume()
    await once(response, 'close')
  })

  it('is 500 if the simulator itself fails, which is reported and not shown', async () => {
    const failures: unknown[] = []
    const broken = new Error('the clock has stopped')
    const now = () => {
      throw broken
    }
    const own = await startSimulator({ now, onFailure: error => failures.push(error) })
    const response = await fetch(`${own.url}/v1/models`, { headers: headersWith() })
    const { status, type, message } = await failure(response)
    await own.close()
    assert.deepEqual({ status, type }, { status: 500, type: 'server_error' })
    assert.doesNotMatch(message, /clock/)
    assert.deepEqual(failures, [broken])
  })

  it('has a request id, like every response', async () => {
    const refused = await fetch(`${simulator.url}/v1/nothing`)
    const answered = await post({ model: 'sim-small', messages: [user('Hello')] })
    await Promise.all([refused.text(), answered.text()])
    assert.match(refused.headers.get('x-request-id') ?? '', /^req_/)
    assert.match(answered.headers.get('x-request-id') ?? '', /^req_/)
    assert.notEqual(refused.headers.get('x-request-id'), answered.headers.get('x-request-id'))
  })
})

describe('control words', () => {
  it('set the number of words by the model name or by a header', async () => {
    const byName = await complete({ model: 'sim-words-50' })
    const byHeader = await complete({ model: 'gpt-4o-mini' }, { 'x-sim-words': '7' })
    assert.equal(byName.usage.completion_tokens, 50)
    assert.equal(only(byName.choices).message.content?.split(' ').length, 50)
    assert.equal(byHeader.usage.completion_tokens, 7)
  })

  it('allow an empty response', async () => {
    const chunks = await stream({ model: 'sim-words-0', stream_options: { include_usage: true } })
    assert.equal(contentOf(chunks), '')
    assert.equal(chunks.at(-1)?.usage?.completion_tokens, 0)
  })

  it('prefer the header over the name, and can be combined in a name', () => {
    const name = 'sim-words-20-pace-5-latency-300'
    assert.equal(steer('words', {}, name), 20)
    assert.equal(steer('paceMs', {}, name), 5)
    assert.equal(steer('latencyMs', {}, name), 300)
    assert.equal(steer('paceMs', { 'x-sim-pace-ms': '0' }, name), 0)
  })

  it('do not apply to other names', () => {
    for (const name of ['gpt-words-20', 'sim-small', 'sim-words-many', 'sim-words', undefined]) {
      assert.equal(steer('words', {}, name), undefined)
    }
  })

  it('limit latency and pace to a minute', () => {
    for (const setting of ['latencyMs', 'paceMs'] as const) assert.equal(bound(setting, 1e9), 60_000)
    assert.equal(steer('latencyMs', { 'x-sim-latency-ms': '9'.repeat(400) }, undefined), 60_000)
    assert.equal(steer('paceMs', {}, 'sim-pace-999999'), 60_000)
  })

  for (const header of ['x-sim-words', 'x-sim-latency-ms', 'x-sim-pace-ms']) {
    it(`are refused in ${header} if it is not an integer`, async () => {
      const response = await post({ model: 'sim-small', messages: [user('Hello')] }, { [header]: '-1' })
      assert.equal((await failure(response)).status, 400)
    })
  }

  it('delay a response without changing it', async () => {
    const [prompt, late] = [await complete({}), await complete({}, { 'x-sim-latency-ms': '5' })]
    assert.deepEqual(late.choices, prompt.choices)
  })

  it('send a paced stream chunk by chunk', async () => {
    const { response, leave } = await open(
      simulator.url,
      { model: 'sim-words-3', stream: true },
      { 'x-sim-pace-ms': '20' },
    )
    const pieces: string[] = []
    for await (const piece of response) pieces.push(String(piece))
    leave()
    // Role, three words, finish reason, [DONE]: only the network may have joined some of them.
    assert.ok(pieces.length > 1)
    assert.equal(pieces.join('').split('\n\n').length, 7)
  })
})

describe('the count file', () => {
  it('has a line for a non-streamed response by the time the client has it', async () => {
    const id = 'attempt-whole'
    const completion = await complete({}, { 'x-client-request-id': id })
    assert.deepEqual(only(countLinesOf(id)), {
      time: '2025-01-31T12:00:00.000Z',
      id: completion.id,
      client_request_id: id,
      key_hint: '1234',
      path: CHAT,
      model: 'sim-small',
      stream: false,
      prompt_tokens: completion.usage.prompt_tokens,
      completion_tokens: completion.usage.completion_tokens,
      finished: true,
    })
  })

  it('has a line for a streamed response that agrees with its usage', async () => {
    for (const [id, body] of [
      ['attempt-text', { n: 2 }],
      ['attempt-calls', { messages: [user('Use your tools')], tools: [weather, clock] }],
      ['attempt-cut', { messages: [user('Use your tools')], tools: [weather, clock], max_tokens: 6 }],
    ] as const) {
      const chunks = await stream(
        { ...body, stream_options: { include_usage: true } },
        { 'x-client-request-id': id },
      )
      const { usage } = chunks.at(-1) ?? {}
      const line = only(countLinesOf(id))
      assert.equal(line.stream, true)
      assert.equal(line.finished, true)
      assert.equal(line.prompt_tokens, usage?.prompt_tokens)
      assert.equal(line.completion_tokens, usage?.completion_tokens)
      assert.equal(line.id, chunks[0]?.id)
    }
  })

  it('never contains a key', async () => {
    await complete({}, { authorization: 'Bearer abcd', 'x-client-request-id': 'short-key' })
    assert.equal(only(countLinesOf('short-key')).key_hint, '')
    assert.ok(!readFileSync(countFile, 'utf8').includes(KEY))
  })

  it('has null if the client sent no request id', async () => {
    const { id } = await complete({})
    assert.equal(only(countLines().filter(line => line.id === id)).client_request_id, null)
  })

  it('has no line for refusals and lists of models', async () => {
    const lines = countLines().length
    await (await post({ model: 'sim-small' })).text()
    await (await fetch(`${simulator.url}/v1/models`, { headers: headersWith() })).text()
    assert.equal(countLines().length, lines)
  })

  it('contains what was generated when the client disconnects from a stream', async () => {
    const id = 'attempt-left'
    const body = { model: 'sim-words-90000-pace-2', stream: true }
    const { response, leave } = await open(simulator.url, body, { 'x-client-request-id': id })
    let received = ''
    for await (const piece of response) {
      received += String(piece)
      if (received.split('"content":" ').length > 5) break
    }
    leave()
    const line = await eventually(() => countLinesOf(id)[0])
    assert.equal(line.finished, false)
    assert.equal(line.prompt_tokens, countTokens('Hello there'))
    assert.ok(line.completion_tokens >= 5 && line.completion_tokens < 90_000, `${line.completion_tokens}`)
  })

  const waits: readonly [name: string, options: object, headers: Record<string, string>, body: object][] = [
    ['flag', { latencyMs: 60_000 }, {}, { stream: true }],
    ['header', {}, { 'x-sim-latency-ms': '60000' }, { stream: true }],
    ['model-name', {}, {}, { model: 'sim-latency-60000' }],
  ]
  for (const [name, options, headers, body] of waits) {
    it(`shows that nothing was generated when the client disconnects during a latency set by ${name}`, async () => {
      const file = join(folder, `early-${name}.jsonl`)
      const accepted = Promise.withResolvers<void>()
      // The clock is read once the body has arrived: only then is there a request to disconnect from.
      const now = () => {
        accepted.resolve()
        return Date.now()
      }
      const own = await startSimulator({ countFile: file, now, ...options })
      const clientRequest = httpRequest(own.url + CHAT, {
        method: 'POST',
        headers: headersWith(headers),
        agent: false,
      })
      clientRequest.on('error', () => {})
      clientRequest.end(JSON.stringify({ model: 'sim-small', messages: [user('Hello there')], ...body }))
      await accepted.promise
      clientRequest.destroy()
      const line = await eventually(() => countLines(file)[0])
      await own.close()
      assert.equal(line.finished, false)
      assert.equal(line.prompt_tokens, countTokens('Hello there'))
      assert.equal(line.completion_tokens, 0)
    })
  }

  it('shows that nothing is generated ahead of a client that does not read', async () => {
    const id = 'attempt-stalled'
    const body = { model: 'sim-words-100000', stream: true }
    const { leave } = await open(simulator.url, body, { 'x-client-request-id': id })
    await sleep(100)
    assert.deepEqual(countLinesOf(id), [])
    leave()
    const line = await eventually(() => countLinesOf(id)[0])
    assert.equal(line.finished, false)
    assert.ok(line.completion_tokens < 100_000)
  })

  it('is appended to by the next run, and counts what closing cuts off', async () => {
    const file = join(folder, 'runs.jsonl')
    for (const run of [1, 2]) {
      const own = await startSimulator({ countFile: file, paceMs: 5 })
      const body = { model: 'sim-words-90000', stream: true }
      const { response } = await open(own.url, body, { 'x-client-request-id': 'cut-off' })
      await once(response, 'data')
      await Promise.all([own.close(), own.close()])
      const lines = countLinesOf('cut-off', file)
      assert.equal(lines.length, run)
      assert.equal(lines.at(-1)?.finished, false)
    }
    assert.equal(new Set(countLines(file).map(line => line.id)).size, 2)
  })
})

describe('the simulator as a process', () => {
  const main = fileURLToPath(new URL('../../simulator/main.ts', import.meta.url))

  function run(...flags: string[]): ChildProcess {
    return spawn(process.execPath, [main, ...flags], { stdio: ['ignore', 'pipe', 'pipe'] })
  }

  async function exitOf(child: ChildProcess) {
    const output = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.on('data', piece => {
        output[name] += String(piece)
      })
    }
    const [code] = (await once(child, 'close')) as [number | null]
    return { code, ...output }
  }

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    it(`prints its address, and on ${signal} counts what it cuts off and exits with 0`, async () => {
      const file = join(folder, `${signal}.jsonl`)
      const child = run('--count-file', file, '--pace-ms', '5', '--latency-ms', '1')
      try {
        assert.ok(child.stdout)
        const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
        const url = /^simulator listening on (http:\/\/127\.0\.0\.1:\d+)$/.exec(line)?.[1]
        assert.ok(url, line)
        const body = { model: 'sim-words-90000', stream: true }
        const { response } = await open(url, body, { 'x-client-request-id': 'cut-off' })
        await once(response, 'data')
        const exited = once(child, 'exit')
        child.kill(signal)
        assert.deepEqual(await exited, [0, null])
        assert.equal(only(countLinesOf('cut-off', file)).finished, false)
      } finally {
        child.kill('SIGKILL')
      }
    })
  }

  it('explains its flags with --help', async () => {
    const { code, stdout } = await exitOf(run('--help'))
    assert.equal(code, 0)
    for (const flag of ['--port', '--host', '--latency-ms', '--pace-ms', '--count-file']) {
      assert.ok(stdout.includes(flag), flag)
    }
  })

  for (const flags of [
    ['--prot', '1'],
    ['--port', 'x'],
    ['--port', '65536'],
    ['--pace-ms', '60001'],
  ]) {
    it(`refuses ${flags.join(' ')} with 2`, async () => {
      const { code, stderr } = await exitOf(run(...flags))
      assert.equal(code, 2)
      assert.match(stderr, /usage:/)
    })
  }

  it('reports why it cannot start', async () => {
    const { code, stderr } = await exitOf(run('--port', String(simulator.port)))
    assert.equal(code, 1)
    assert.match(stderr, /cannot start.*EADDRINUSE/)
  })
})
