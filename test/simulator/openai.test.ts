import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { CountLine } from '../../simulator/count.ts'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { countTokens, splitTokens } from '../../simulator/tokens.ts'

const KEY = 'sk-simulator-openai-test-1234'
const NOW = Date.UTC(2025, 0, 31, 12)

const folder = mkdtempSync(join(tmpdir(), 'simulator-openai-'))
const countFile = join(folder, 'count.jsonl')
let simulator: Simulator

before(async () => {
  simulator = await startSimulator({ countFile, now: () => NOW })
})
after(async () => {
  await simulator.close()
  rmSync(folder, { recursive: true })
})

function post(path: string, body: object, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(simulator.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, ...headers },
    body: JSON.stringify(body),
  })
}

async function refusal(response: Response) {
  const { error } = (await response.json()) as { error: { param: string | null } }
  return { status: response.status, param: error.param }
}

function lineOf(id: string): CountLine {
  const lines = readFileSync(countFile, 'utf8').split('\n').filter(Boolean)
  const matchingLines = lines
    .map(line => JSON.parse(line) as CountLine)
    .filter(line => line.client_request_id === id)
  assert.equal(matchingLines.length, 1)
  return matchingLines[0] as CountLine
}

type Usage = { prompt_tokens: number; completion_tokens?: number; total_tokens: number }

describe('a text completion', () => {
  const PATH = '/v1/completions'
  type Completion = {
    id: string
    object: string
    created: number
    model: string
    choices: { text: string; index: number; logprobs: null; finish_reason: string | null }[]
    usage?: Usage | null
  }
  const complete = async (body: object, headers?: Record<string, string>) => {
    const response = await post(PATH, { model: 'sim-small', prompt: 'Once upon a time', ...body }, headers)
    assert.equal(response.status, 200)
    return (await response.json()) as Completion
  }
  const stream = async (body: object, headers?: Record<string, string>) => {
    const whole = { model: 'sim-small', prompt: 'Once upon a time', stream: true, ...body }
    const response = await post(PATH, whole, headers)
    assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
    const events = (await response.text()).split('\n\n')
    assert.deepEqual(events.splice(-2), ['data: [DONE]', ''])
    return events.map(event => JSON.parse(event.slice('data: '.length)) as Completion)
  }
  const textsOf = (chunks: readonly Completion[], index: number) =>
    chunks.flatMap(({ choices }) => choices.filter(choice => choice.index === index).map(({ text }) => text))

  it('has OpenAI’s format, repeats its prompt and is counted', async () => {
    const id = 'completion-whole'
    const { choices, usage, ...rest } = await complete({}, { 'x-client-request-id': id })
    assert.match(rest.id, /^cmpl-/)
    assert.equal(rest.object, 'text_completion')
    assert.equal(rest.created, NOW / 1000)
    assert.equal(rest.model, 'sim-small')
    assert.equal(choices.length, 1)
    const [choice] = choices
    assert.match(choice?.text ?? '', /"Once upon a time"/)
    assert.deepEqual(choice, { text: choice?.text, index: 0, logprobs: null, finish_reason: 'stop' })
    const tokens = countTokens(choice?.text ?? '')
    assert.deepEqual(usage, { prompt_tokens: 4, completion_tokens: tokens, total_tokens: 4 + tokens })
    const line = lineOf(id)
    assert.equal(line.id, rest.id)
    assert.equal(line.path, PATH)
    assert.deepEqual(
      [line.stream, line.prompt_tokens, line.completion_tokens, line.finished],
      [false, 4, tokens, true],
    )
  })

  it('streams the same text token by token, with usage if requested', async () => {
    const id = 'completion-stream'
    const whole = await complete({})
    const chunks = await stream({ stream_options: { include_usage: true } }, { 'x-client-request-id': id })
    const texts = textsOf(chunks, 0)
    assert.equal(texts.join(''), whole.choices[0]?.text)
    assert.deepEqual(texts.slice(0, -1), splitTokens(whole.choices[0]?.text ?? ''))
    assert.ok(chunks.every(({ id: one, object }) => one === chunks[0]?.id && object === 'text_completion'))
    assert.deepEqual(chunks.at(-1)?.choices, [])
    assert.deepEqual(chunks.at(-1)?.usage, whole.usage)
    assert.equal(chunks.at(-2)?.choices[0]?.finish_reason, 'stop')
    assert.ok(chunks.slice(0, -1).every(({ usage }) => usage === null))
    const line = lineOf(id)
    assert.deepEqual(
      [line.stream, line.prompt_tokens, line.completion_tokens, line.finished],
      [true, 4, whole.usage?.completion_tokens, true],
    )
  })

  it('has no usage in a stream unless requested', async () => {
    assert.ok((await stream({})).every(chunk => !('usage' in chunk)))
  })

  it('returns n choices for every prompt, and counts each prompt once', async () => {
    const prompt = ['Red', 'Green and blue']
    const { choices, usage } = await complete({ prompt, n: 2 })
    assert.deepEqual(
      choices.map(({ index }) => index),
      [0, 1, 2, 3],
    )
    assert.deepEqual(
      choices.map(({ text }) => /"(.*?)"/.exec(text)?.[1]),
      ['Red', 'Red', 'Green and blue', 'Green and blue'],
    )
    assert.notEqual(choices[0]?.text, choices[1]?.text)
    assert.equal(usage?.prompt_tokens, 4)
    assert.equal(
      usage?.completion_tokens,
      choices.reduce((sum, { text }) => sum + countTokens(text), 0),
    )
    const chunks = await stream({ prompt, n: 2 })
    for (const { index, text } of choices) assert.equal(textsOf(chunks, index).join(''), text)
  })

  it('accepts token numbers, one list or many, and counts them', async () => {
    assert.equal((await complete({ prompt: [1, 2, 3] })).usage?.prompt_tokens, 3)
    const many = await complete({ prompt: [[1, 2], [3]] })
    assert.equal(many.usage?.prompt_tokens, 3)
    assert.equal(many.choices.length, 2)
  })

  it('accepts an empty prompt', async () => {
    assert.equal((await complete({ prompt: '' })).usage?.prompt_tokens, 0)
  })

  it('is truncated at max_tokens, and controlled like any other response', async () => {
    const cut = await complete({ max_tokens: 3 })
    assert.equal(cut.choices[0]?.finish_reason, 'length')
    assert.equal(cut.usage?.completion_tokens, 3)
    assert.equal((await complete({ model: 'sim-words-50' })).usage?.completion_tokens, 50)
    assert.equal((await post(PATH, { model: 'sim-status-503', prompt: 'Hi' })).status, 503)
  })

  it('is broken off by a fault, and counted accordingly', async () => {
    const id = 'completion-eof'
    const body = { model: 'sim-words-9-eof-4', prompt: 'Hi', stream: true }
    const text = await (await post(PATH, body, { 'x-client-request-id': id })).text()
    assert.equal(text.split('data: ').length - 1, 4)
    assert.deepEqual([lineOf(id).completion_tokens, lineOf(id).finished], [4, false])
  })

  for (const [name, body, param] of [
    ['no model', { prompt: 'Hi' }, 'model'],
    ['no prompt', { model: 'sim-small' }, 'prompt'],
    ['an empty list', { model: 'sim-small', prompt: [] }, 'prompt'],
    ['a prompt that is an object', { model: 'sim-small', prompt: {} }, 'prompt'],
    ['texts mixed with numbers', { model: 'sim-small', prompt: ['a', 1] }, 'prompt'],
    ['half a token', { model: 'sim-small', prompt: [1.5] }, 'prompt'],
    ['n of 0', { model: 'sim-small', prompt: 'Hi', n: 0 }, 'n'],
    ['too many choices', { model: 'sim-small', prompt: ['a', 'b'], n: 65 }, 'n'],
    ['max_tokens of 0', { model: 'sim-small', prompt: 'Hi', max_tokens: 0 }, 'max_tokens'],
  ] as const) {
    it(`is refused for ${name}`, async () => {
      assert.deepEqual(await refusal(await post(PATH, body)), { status: 400, param })
    })
  }
})

describe('an embedding', () => {
  const PATH = '/v1/embeddings'
  type Embeddings = {
    object: string
    data: { object: string; index: number; embedding: number[] | string }[]
    model: string
    usage: Usage
  }
  const embed = async (body: object, headers?: Record<string, string>) => {
    const response = await post(PATH, { model: 'sim-small', input: 'Rivers and boats', ...body }, headers)
    assert.equal(response.status, 200)
    return (await response.json()) as Embeddings
  }
  const vectorOf = async (body: object) => (await embed(body)).data[0]?.embedding as number[]
  const lengthOf = (vector: readonly number[]) => Math.hypot(...vector)

  it('has OpenAI’s format and is counted', async () => {
    const id = 'embedding'
    const { data, ...rest } = await embed({}, { 'x-client-request-id': id })
    const usage = { prompt_tokens: 3, total_tokens: 3 }
    assert.deepEqual(rest, { object: 'list', model: 'sim-small', usage })
    assert.equal(data.length, 1)
    assert.equal(data[0]?.object, 'embedding')
    assert.equal(data[0]?.index, 0)
    assert.equal(data[0]?.embedding.length, 1536)
    const line = lineOf(id)
    assert.match(line.id, /^req_/)
    assert.equal(line.path, PATH)
    assert.deepEqual([line.prompt_tokens, line.completion_tokens, line.finished], [3, 0, true])
  })

  it('is the same for the same text, different for another, and of length 1', async () => {
    const [one, same, other] = [await vectorOf({}), await vectorOf({}), await vectorOf({ input: 'Rivers' })]
    assert.deepEqual(one, same)
    assert.notDeepEqual(one, other)
    for (const vector of [one, other]) assert.ok(Math.abs(lengthOf(vector) - 1) < 1e-5)
    // Unrelated texts have unrelated directions.
    const product = one.reduce((sum, value, at) => sum + value * (other[at] ?? 0), 0)
    assert.ok(Math.abs(product) < 0.2, `${product}`)
  })

  it('is shortened by dimensions to the same direction', async () => {
    const [long, short] = [await vectorOf({}), await vectorOf({ dimensions: 8 })]
    assert.equal(short.length, 8)
    assert.ok(Math.abs(lengthOf(short) - 1) < 1e-5)
    const scale = lengthOf(long.slice(0, 8))
    for (const [at, value] of short.entries()) assert.ok(Math.abs(value * scale - (long[at] ?? 0)) < 1e-6)
  })

  it('is the same numbers in base64, little-endian floats of 32 bits', async () => {
    const floats = await vectorOf({ dimensions: 5, encoding_format: 'float' })
    const encoded = (await embed({ dimensions: 5, encoding_format: 'base64' })).data[0]?.embedding
    const bytes = Buffer.from(encoded as string, 'base64')
    assert.equal(bytes.length, 20)
    assert.deepEqual(
      floats.map((_, at) => bytes.readFloatLE(at * 4)),
      floats,
    )
  })

  it('is returned for each of several texts or lists of tokens, in their order', async () => {
    const { data, usage } = await embed({ input: ['Rivers and boats', 'Rivers'], dimensions: 4 })
    assert.deepEqual(
      data.map(({ index }) => index),
      [0, 1],
    )
    assert.equal(usage.prompt_tokens, 4)
    assert.deepEqual(data[1]?.embedding, await vectorOf({ input: 'Rivers', dimensions: 4 }))
    assert.equal((await embed({ input: [5, 6, 7] })).usage.total_tokens, 3)
    const lists = await embed({ input: [[5, 6, 7], [8]] })
    assert.equal(lists.usage.total_tokens, 4)
    assert.equal(lists.data.length, 2)
  })

  it('is subject to faults', async () => {
    assert.equal((await post(PATH, { model: 'sim-status-429', input: 'Hi' })).status, 429)
    const { usage } = await embed({ model: 'sim-overuse-3' })
    assert.deepEqual(usage, { prompt_tokens: 9, total_tokens: 9 })
  })

  for (const [name, body, param] of [
    ['no input', { model: 'sim-small' }, 'input'],
    ['an empty text', { model: 'sim-small', input: '' }, 'input'],
    ['an empty text among others', { model: 'sim-small', input: ['a', ''] }, 'input'],
    ['an empty list', { model: 'sim-small', input: [] }, 'input'],
    ['an input that is a number', { model: 'sim-small', input: 7 }, 'input'],
    ['another encoding', { model: 'sim-small', input: 'a', encoding_format: 'hex' }, 'encoding_format'],
    ['no dimensions', { model: 'sim-small', input: 'a', dimensions: 0 }, 'dimensions'],
    ['too many dimensions', { model: 'sim-small', input: 'a', dimensions: 3073 }, 'dimensions'],
  ] as const) {
    it(`is refused for ${name}`, async () => {
      assert.deepEqual(await refusal(await post(PATH, body)), { status: 400, param })
    })
  }
})
