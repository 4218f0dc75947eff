import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readEmbeddingRequest } from '../../src/media/embedding-request.ts'
import { base64FromFloats, encodeEmbeddings, floatsFromBase64 } from '../../src/media/vectors.ts'
import { inputBound, MEDIA_TOKENS } from '../../src/metering/prompt-size.ts'
import { readChatRequest } from '../../src/requests/chat-request.ts'
import { readCompletionRequest } from '../../src/requests/completion-request.ts'
import type { RequestReading } from '../../src/requests/request-fields.ts'
import { law } from '../support/laws.ts'
import { fc } from '../support/properties.ts'
import { wholeAnswers } from '../support/recordings.ts'

const CHAT = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
const COMPLETION = { model: 'm', prompt: 'Once' }
const EMBEDDING = { model: 'm', input: 'Once' }

function factsOf<Facts>(reading: RequestReading<Facts>): Facts {
  assert.ok('request' in reading, JSON.stringify(reading))
  return reading.request
}

function faultOf(reading: RequestReading<unknown>): readonly [param: string | null, code: string] {
  assert.ok('fault' in reading, JSON.stringify(reading))
  assert.ok(reading.fault.message.length > 10)
  return [reading.fault.param, reading.fault.code]
}

const READERS = [
  { name: 'chat', read: readChatRequest, body: CHAT, field: 'messages' },
  { name: 'completions', read: readCompletionRequest, body: COMPLETION, field: 'prompt' },
  { name: 'embeddings', read: readEmbeddingRequest, body: EMBEDDING, field: 'input' },
] as const

for (const { name, read, body, field } of READERS) {
  describe(`a request for ${name}`, () => {
    it('must be a JSON object', () => {
      for (const other of [undefined, null, [], 'model', 7, true]) {
        assert.deepEqual(faultOf(read(other)), [null, 'invalid_json'])
      }
    })

    it('must name a model of 1 to 255 characters without control characters', () => {
      for (const model of [undefined, null, '']) {
        assert.deepEqual(faultOf(read({ ...body, model })), ['model', 'missing_parameter'])
      }
      for (const model of [7, true, ['m'], { name: 'm' }, 'm'.repeat(256), 'a\nb', 'a\u0000', '\ud800']) {
        assert.deepEqual(faultOf(read({ ...body, model })), ['model', 'invalid_parameter'])
      }
      for (const model of ['m', '😀'.repeat(255), '__proto__', 'toString', 'org/model:free']) {
        assert.equal(factsOf<{ model: string }>(read({ ...body, model })).model, model)
      }
    })

    it(`must have ${field}`, () => {
      for (const value of [undefined, null, '']) {
        assert.deepEqual(faultOf(read({ ...body, [field]: value })), [field, 'missing_parameter'])
      }
      for (const value of [[], {}, 7, true, [[]], [null], ['a', 1], [1.5], [-1], [['a']]]) {
        const [param, code] = faultOf(read({ ...body, [field]: value }))
        assert.equal(param?.split('[')[0], field)
        assert.equal(code, 'invalid_parameter')
      }
    })

    it('is not read from inherited members', () => {
      const inherited = JSON.parse(JSON.stringify({ x: body }).replace('"x"', '"__proto__"'))
      assert.deepEqual(faultOf(read(inherited)), ['model', 'missing_parameter'])
    })

    it('accepts any JSON without throwing', () => {
      fc.assert(
        fc.property(fc.jsonValue(), value => {
          const reading = read({ ...body, [field]: value, extra: value })
          if ('request' in reading) assert.ok(Number.isSafeInteger(reading.request.textBytes))
        }),
      )
    })
  })
}

describe('the fields of a chat request', () => {
  it('have defaults if they are absent or null', () => {
    const expected = { model: 'm', stream: false, n: 1, maxOutput: undefined, includeUsage: false }
    const none = {
      stream: null,
      n: null,
      max_tokens: null,
      max_completion_tokens: null,
      stream_options: null,
    }
    for (const body of [CHAT, { ...CHAT, ...none }]) {
      const { textBytes, overhead, media, ...facts } = factsOf(readChatRequest(body))
      assert.deepEqual(facts, expected)
    }
  })

  it('are read', () => {
    const body = { ...CHAT, stream: true, n: 128, max_tokens: 7, stream_options: { include_usage: true } }
    const { stream, n, maxOutput, includeUsage } = factsOf(readChatRequest(body))
    assert.deepEqual([stream, n, maxOutput, includeUsage], [true, 128, 7, true])
  })

  it('may set both limits: the greater one is held for, because a host may support only one of them', () => {
    const body = { ...CHAT, max_tokens: 7, max_completion_tokens: 9 }
    assert.equal(factsOf(readChatRequest(body)).maxOutput, 9)
    const other = { ...CHAT, max_tokens: 9, max_completion_tokens: 7 }
    assert.equal(factsOf(readChatRequest(other)).maxOutput, 9)
    assert.deepEqual(faultOf(readChatRequest({ ...body, max_tokens: 'x' })), [
      'max_tokens',
      'invalid_parameter',
    ])
  })

  it('are refused by name if they have the wrong type or are out of range', () => {
    const wrongNumbers = [0, -1, 1.5, 1e13, 1e15, 1e308, 2 ** 63, '10', true, [], {}]
    const wrong: [string, unknown, string?][] = [
      ...[0, 1, 'true', [], {}].map(value => ['stream', value] as [string, unknown]),
      ...[...wrongNumbers, 129].map(value => ['n', value] as [string, unknown]),
      ...wrongNumbers.map(value => ['max_tokens', value] as [string, unknown]),
      ...wrongNumbers.map(value => ['max_completion_tokens', value] as [string, unknown]),
      ['stream_options', 'include_usage'],
      ['stream_options', []],
      ['stream_options', { include_usage: 1 }, 'stream_options.include_usage'],
      ['messages', ['Hi'], 'messages[0]'],
      ['messages', [...CHAT.messages, { content: 'Hi' }], 'messages[1].role'],
      ['messages', [{ role: 7 }], 'messages[0].role'],
    ]
    for (const [field, value, param = field] of wrong) {
      const fault = faultOf(readChatRequest({ ...CHAT, [field]: value }))
      assert.deepEqual(fault, [param, 'invalid_parameter'], `${field}: ${JSON.stringify(value)}`)
    }
  })

  it('are refused if the output they allow is not an exact number', () => {
    const body = { ...CHAT, n: 2, max_tokens: Number.MAX_SAFE_INTEGER }
    assert.deepEqual(faultOf(readChatRequest(body)), ['max_tokens', 'invalid_parameter'])
    const other = { ...CHAT, n: 2, max_completion_tokens: Number.MAX_SAFE_INTEGER }
    assert.deepEqual(faultOf(readChatRequest(other)), ['max_completion_tokens', 'invalid_parameter'])
  })

  it('that the gateway does not know may have any value', () => {
    const body = { ...CHAT, temperature: 'hot', tools: 'none', new_field: { a: [1] } }
    assert.equal(factsOf(readChatRequest(body)).model, 'm')
  })
})

const bytesOf = (body: unknown) => factsOf(readChatRequest(body)).textBytes

describe('the upper bound of a prompt', () => {
  it('is at least the bytes of all texts, at any depth', () => {
    const text = 'Grüße, 世界 😀'.repeat(10)
    const length = Buffer.byteLength(text)
    const tool = { type: 'function', function: { name: 'f', description: text, parameters: { [text]: {} } } }
    const bodies = [
      { ...CHAT, messages: [...CHAT.messages, { role: 'user', content: [{ type: 'text', text }] }] },
      { ...CHAT, messages: [...CHAT.messages, { role: 'assistant', reasoning_content: text }] },
      { ...CHAT, response_format: { type: 'json_schema', json_schema: { schema: { description: text } } } },
      { ...CHAT, documents: [text] },
      {
        ...CHAT,
        messages: [{ role: 'user', content: [{ type: 'image_url', text, image_url: { url: 'x' } }] }],
      },
    ]
    for (const body of bodies) assert.ok(bytesOf(body) >= bytesOf(CHAT) - 2 + length)
    assert.ok(bytesOf({ ...CHAT, tools: [tool] }) >= bytesOf(CHAT) + 2 * length)
  })

  it('grows with every message and tool, however short', () => {
    const message = { role: 'user', content: '' }
    assert.ok(bytesOf({ ...CHAT, messages: [...CHAT.messages, message] }) >= bytesOf(CHAT) + 16)
    const tool = { type: 'function', function: { name: 'f' } }
    const one = bytesOf({ ...CHAT, tools: [tool] })
    assert.ok(one >= bytesOf(CHAT) + 600)
    assert.ok(bytesOf({ ...CHAT, tools: [tool, tool] }) >= one + 32)
    assert.ok(bytesOf({ ...CHAT, functions: [tool] }) >= bytesOf(CHAT) + 600)
  })

  it('counts images, audio, files and videos, not their bytes or URLs', () => {
    const data = 'A'.repeat(100_000)
    const parts = [
      { type: 'image_url', image_url: { url: `data:image/png;base64,${data}`, detail: 'high' } },
      { type: 'image_url', image_url: data },
      { type: 'input_audio', input_audio: { data, format: 'mp3' } },
      { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${data}` } },
      { type: 'video_url', video_url: { url: data } },
      { type: 'image', source: { type: 'image', data } },
    ]
    const { textBytes, media } = factsOf(
      readChatRequest({ ...CHAT, messages: [{ role: 'user', content: parts }] }),
    )
    assert.deepEqual(media, { images: 3, audio: 1, files: 1, videos: 1 })
    assert.ok(textBytes < 2_000)
    const { images, audio, files, videos } = MEDIA_TOKENS
    assert.equal(inputBound({ textBytes, media }), textBytes + 3 * images + audio + files + videos)
  })

  it('counts a text file as its text', () => {
    const text = Buffer.from('word '.repeat(200_000)).toString('base64')
    const part = { type: 'file', file: { filename: 'a.txt', file_data: `data:text/plain;base64,${text}` } }
    assert.ok(bytesOf({ ...CHAT, messages: [{ role: 'user', content: [part] }] }) >= 1_000_000)
  })

  it('does not count a text as an image because of a nested type', () => {
    const url = 'x'.repeat(5_000)
    const body = { ...CHAT, tools: [{ type: 'function', function: { parameters: { url } } }] }
    assert.ok(bytesOf(body) >= 5_000)
  })
})

describe('every request with its response', () => {
  const usageIn = (answer: unknown) =>
    (answer as { usage?: { prompt_tokens?: number; total_tokens?: number } }).usage

  for (const { name, request, answer } of wholeAnswers('completions')) {
    const prompt = usageIn(answer)?.prompt_tokens
    if (prompt === undefined) continue
    law(`${name} has a prompt within its upper bound`, { transcript: name }, () => {
      const body = { model: 'in the path', ...(request as object) }
      const facts = 'prompt' in body ? factsOf(readCompletionRequest(body)) : factsOf(readChatRequest(body))
      assert.ok(inputBound(facts) >= prompt)
    })
  }

  for (const { name, request, answer } of wholeAnswers('embeddings')) {
    law(`${name} has an input within its upper bound`, { transcript: name }, () => {
      const facts = factsOf(readEmbeddingRequest({ model: 'in the path', ...(request as object) }))
      const { prompt_tokens, total_tokens } = usageIn(answer) ?? {}
      assert.ok(facts.textBytes >= Number(prompt_tokens ?? total_tokens))
      assert.equal(facts.inputs, (answer as { data: unknown[] }).data.length)
    })
  }
})

describe('the fields of a completion request', () => {
  const facts = (more: object) => factsOf(readCompletionRequest({ ...COMPLETION, ...more }))

  it('set no limit by default, and may request zero tokens', () => {
    assert.equal(facts({}).maxOutput, undefined)
    assert.equal(facts({ max_tokens: 5 }).maxOutput, 5)
    assert.equal(facts({ max_tokens: 0, echo: true }).maxOutput, 0)
  })

  it('request choices for every prompt, and pay for best_of', () => {
    assert.deepEqual([facts({}).n, facts({}).choices], [1, 1])
    const several = facts({ prompt: ['a', 'b', 'c'], n: 2, best_of: 5 })
    assert.deepEqual([several.n, several.choices], [6, 15])
  })

  it('may contain a text, texts, tokens or lists of tokens', () => {
    const counts = [
      ['Once', 1],
      [['a', 'b'], 2],
      [[1, 2, 3], 1],
      [[[1, 2], [3]], 2],
    ] as const
    for (const [prompt, count] of counts) assert.equal(facts({ prompt }).choices, count)
    const tokens = Array.from({ length: 1_000 }, (_, index) => index)
    const { textBytes } = facts({ prompt: tokens })
    assert.ok(textBytes >= 1_000 && textBytes < 1_100)
    assert.ok(facts({ suffix: 'x'.repeat(500) }).textBytes >= 500)
  })

  it('are refused by name if they are invalid', () => {
    const wrong = [
      ['n', 0],
      ['n', 129],
      ['best_of', 0],
      ['best_of', '2'],
      ['max_tokens', -1],
      ['max_tokens', 2 ** 60],
      ['stream', 'yes'],
      ['stream_options', true],
    ] as const
    for (const [field, value] of wrong) {
      const fault = faultOf(readCompletionRequest({ ...COMPLETION, [field]: value }))
      assert.deepEqual(fault, [field, 'invalid_parameter'])
    }
    const fewer = readCompletionRequest({ ...COMPLETION, n: 3, best_of: 2 })
    assert.deepEqual(faultOf(fewer), ['best_of', 'invalid_parameter'])
  })
})

describe('the fields of an embedding request', () => {
  const facts = (more: object) => factsOf(readEmbeddingRequest({ ...EMBEDDING, ...more }))

  it('request floats by default', () => {
    assert.equal(facts({}).encoding, 'float')
    assert.equal(facts({ encoding_format: null }).encoding, 'float')
    assert.equal(facts({ encoding_format: 'base64', dimensions: 256 }).encoding, 'base64')
    assert.equal(facts({ dimensions: 256 }).dimensions, 256)
  })

  it('count the requested vectors', () => {
    assert.equal(facts({ input: ['a', 'b'] }).inputs, 2)
    assert.equal(facts({ input: [1, 2, 3] }).inputs, 1)
    assert.equal(facts({ input: [[1], [2], [3]] }).inputs, 3)
  })

  it('are refused by name if they are invalid', () => {
    for (const [field, value] of [
      ['encoding_format', 'int8'],
      ['encoding_format', 1],
      ['dimensions', 0],
      ['dimensions', 1.5],
      ['dimensions', '256'],
    ] as const) {
      const fault = faultOf(readEmbeddingRequest({ ...EMBEDDING, [field]: value }))
      assert.deepEqual(fault, [field, 'invalid_parameter'])
    }
  })
})

describe('an embedding', () => {
  const float32 = fc.float({ noNaN: true })

  it('is encoded as base64 of little-endian floats, and decoded without loss', () => {
    assert.equal(base64FromFloats([1, -2.5]), Buffer.from('0000803f000020c0', 'hex').toString('base64'))
    fc.assert(
      fc.property(fc.array(float32), values => {
        assert.deepEqual(floatsFromBase64(base64FromFloats(values)), values)
      }),
    )
  })

  it('is invalid if the text is not the base64 of whole floats', () => {
    for (const text of ['AAA=', 'AAAAAAA', '????', 'AAAAAA', 'data:AAAA'])
      assert.equal(floatsFromBase64(text), undefined)
    assert.deepEqual(floatsFromBase64(''), [])
  })

  it('is returned to the client in the requested encoding', () => {
    const floats = { object: 'list', data: [{ index: 0, embedding: [1, -2.5] }], model: 'm', usage: {} }
    const base64 = { ...floats, data: [{ index: 0, embedding: 'AACAPwAAIMA=' }] }
    assert.deepEqual(encodeEmbeddings(floats, 'base64'), base64)
    assert.deepEqual(encodeEmbeddings(base64, 'float'), floats)
  })

  it('is left unchanged if it has that encoding already, or neither', () => {
    const answers = [
      { data: [{ embedding: 'AACAPw==' }] },
      { data: [{ embedding: null }, 7] },
      { data: 'x' },
      {},
    ]
    for (const answer of answers) assert.equal(encodeEmbeddings(answer, 'base64'), answer)
    const floats = { data: [{ embedding: [1] }, { embedding: 'no vector' }] }
    assert.equal(encodeEmbeddings(floats, 'float'), floats)
  })
})
