import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { anthropic } from '../../src/chat/anthropic/messages/format.ts'
import { gemini, geminiList } from '../../src/chat/gemini/format.ts'
import { eventsOf } from '../../src/chat/hub/answer.ts'
import type { IdsAndClock, Inbound, Outbound } from '../../src/chat/hub/format.ts'
import type { ChatAnswer, ChatEvent, Part } from '../../src/chat/hub/hub.ts'
import { createPassingMeter, createTranslatingMeter } from '../../src/chat/hub/meter.ts'
import { FORMATS } from '../../src/chat/index.ts'
import { openaiChat } from '../../src/chat/openai/chat-completions/format.ts'
import { responses } from '../../src/chat/openai/responses/format.ts'
import { transcriptsOf } from '../support/format-recordings.ts'
import { answerOf } from '../support/gathered-answer.ts'
import { law } from '../support/laws.ts'

function still(): IdsAndClock {
  let count = 0
  return { newId: prefix => `${prefix}${++count}`, nowS: () => 1_700_000_000 }
}

const sse = (...events: readonly unknown[]): Buffer =>
  Buffer.from(
    events.map(event => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`).join(''),
  )

function decode(format: Outbound, bytes: Buffer, choices = 1): readonly ChatEvent[] {
  const decoder = format.createStreamDecoder({ idsAndClock: still(), choices })
  return [...decoder.push(bytes), ...decoder.end()]
}

function answer(format: Outbound, bytes: Buffer): ChatAnswer {
  const gathered = answerOf(decode(format, bytes))
  assert.ok('answer' in gathered, JSON.stringify(gathered))
  return gathered.answer
}

function errorOf(format: Outbound, bytes: Buffer) {
  const last = decode(format, bytes).at(-1)
  assert.equal(last?.type, 'error')
  return last.error
}

/** The names and payloads of the events that an encoder writes. */
function encodeEvents(format: Inbound, events: readonly ChatEvent[]) {
  const encoder = format.createStreamEncoder({ idsAndClock: still() })
  return Buffer.concat(events.flatMap(event => encoder.push(event)))
    .toString()
    .split('\n\n')
    .filter(Boolean)
    .map(text => {
      const data = /^data: (.*)$/m.exec(text)?.[1] ?? ''
      return {
        event: /^event: (.*)$/m.exec(text)?.[1],
        data: data === '[DONE]' ? {} : (JSON.parse(data) as Record<string, unknown>),
        isDone: data === '[DONE]',
      }
    })
}

/** docs/reference/formats.md: Host differences. */
describe('a stream of chat completions', () => {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    id: 'a',
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
  })
  const call = (fields: object, name?: string, args?: unknown) => ({
    tool_calls: [{ ...fields, type: 'function', function: { name, arguments: args } }],
  })
  const callsIn = (...chunks: readonly object[]) =>
    answer(openaiChat, sse(...chunks, chunk({}, 'tool_calls'), '[DONE]')).choices[0]?.parts.map(part =>
      part.type === 'toolCall' ? [part.id, part.name, part.arguments] : part,
    )

  it('joins the parts of a call by their index, with any first index', () => {
    const calls = callsIn(
      chunk(call({ index: 1, id: 'x' }, 'f', '{"a"')),
      chunk(call({ index: 1 }, undefined, ':1}')),
      chunk(call({ index: 2, id: 'y' }, 'g', '{}')),
    )
    assert.deepEqual(calls, [
      ['x', 'f', '{"a":1}'],
      ['y', 'g', '{}'],
    ])
  })

  it('distinguishes calls by their ids if all have the same index', () => {
    const calls = callsIn(
      chunk(call({ index: 0, id: 'x' }, 'f', '{}')),
      chunk(call({ index: 0, id: 'y' }, 'g', '{}')),
    )
    assert.deepEqual(calls, [
      ['x', 'f', '{}'],
      ['y', 'g', '{}'],
    ])
  })

  it('does not let empty ids and names overwrite the first', () => {
    const calls = callsIn(
      chunk(call({ index: 0, id: 'x' }, 'f', '{"a":')),
      chunk(call({ index: 0, id: '' }, '', '1}')),
    )
    assert.deepEqual(calls, [['x', 'f', '{"a":1}']])
  })

  it('accepts calls without index and id, complete or in parts, and assigns ids', () => {
    const calls = callsIn(
      chunk(call({}, 'f', '{"a":')),
      chunk(call({}, undefined, '1}')),
      chunk(call({ id: '' }, 'g', { b: 2 })),
    )
    assert.deepEqual(calls, [
      ['call_1', 'f', '{"a":1}'],
      ['call_2', 'g', '{"b":2}'],
    ])
  })

  it('gives a call without arguments an empty object', () => {
    assert.deepEqual(callsIn(chunk(call({ index: 0, id: 'x' }, 'f', ''))), [['x', 'f', '{}']])
  })

  it('joins the parts of interleaved calls', () => {
    const calls = callsIn(
      chunk(call({ index: 0, id: 'x' }, 'f', '{"a"')),
      chunk(call({ index: 1, id: 'y' }, 'g', '{"b"')),
      chunk(call({ index: 0 }, undefined, ':1}')),
      chunk(call({ index: 1 }, undefined, ':2}')),
    )
    assert.deepEqual(calls, [
      ['x', 'f', '{"a":1}'],
      ['y', 'g', '{"b":2}'],
    ])
  })

  it('reports tool calls as the finish reason, whatever the host reports', () => {
    const bytes = sse(chunk(call({ index: 0, id: 'x' }, 'f', '{}')), chunk({}, 'stop'), '[DONE]')
    assert.equal(answer(openaiChat, bytes).choices[0]?.stop.reason, 'tools')
  })

  it('does not add a cumulative message to the deltas beside it', () => {
    const both = { index: 0, delta: { content: 'b' }, message: { content: 'ab' }, finish_reason: 'stop' }
    const bytes = sse(chunk({ content: 'a' }), { id: 'a', choices: [both] })
    assert.deepEqual(answer(openaiChat, bytes).choices[0]?.parts, [{ type: 'text', text: 'ab' }])
  })

  it('reads several chunks in one event', () => {
    const bytes = Buffer.from(
      `data: ${JSON.stringify(chunk({ content: 'a' }))}\ndata: ${JSON.stringify(chunk({ content: 'b' }, 'stop'))}\n\n`,
    )
    assert.deepEqual(answer(openaiChat, bytes).choices[0]?.parts, [{ type: 'text', text: 'ab' }])
  })

  it('keeps reasoning and text apart in their order', () => {
    const bytes = sse(
      chunk({ reasoning_content: 'Hm' }),
      chunk({ content: 'A' }),
      chunk({ reasoning: 'Oh' }),
      chunk({ content: 'B' }, 'stop'),
    )
    assert.deepEqual(answer(openaiChat, bytes).choices[0]?.parts, [
      { type: 'reasoning', text: 'Hm' },
      { type: 'text', text: 'A' },
      { type: 'reasoning', text: 'Oh' },
      { type: 'text', text: 'B' },
    ])
  })

  it('is not complete until every choice is', () => {
    const one = sse(chunk({ content: 'a' }, 'stop'))
    assert.equal(decode(openaiChat, one, 2).at(-1)?.type, 'error')
    assert.equal(decode(openaiChat, one, 1).at(-1)?.type, 'end')
  })

  it('ends with an error if the host reports one inside it', () => {
    const started = chunk({ content: 'a' })
    assert.equal(errorOf(openaiChat, sse(started, { error: { message: 'no', code: 429 } })).kind, 'rateLimit')
    assert.equal(errorOf(openaiChat, sse(started, { code: 'x', error: 'overheated' })).message, 'overheated')
    const errorStream = Buffer.concat([
      sse(started),
      Buffer.from('event: error\ndata: {"message":"gone"}\n\n'),
    ])
    assert.equal(errorOf(openaiChat, errorStream).message, 'gone')
    assert.equal(errorOf(openaiChat, sse(chunk({}, 'error'))).kind, 'server')
  })

  it('ends with an error if it is not JSON, or not a stream', () => {
    assert.match(errorOf(openaiChat, sse(chunk({ content: 'a' }), '{"id":')).message, /not JSON/)
    assert.equal(errorOf(openaiChat, Buffer.from('<html>Bad gateway</html>')).kind, 'truncated')
    assert.equal(errorOf(openaiChat, Buffer.alloc(0)).kind, 'truncated')
  })

  it('ends with an error if it has no end', () => {
    const decoder = openaiChat.createStreamDecoder({ idsAndClock: still() })
    const piece = sse(chunk({ content: 'x'.repeat(2 ** 20 - 200) }))
    let last: ChatEvent | undefined
    for (let count = 0; count < 40; count++) last = decoder.push(piece).at(-1) ?? last
    assert.equal(last?.type, 'error')
    assert.deepEqual(decoder.push(piece), [])
  })

  it('sends each choice its own role, text and finish reason', () => {
    const createChoice = (text: string): { parts: readonly Part[]; stop: { reason: 'stop' } } => ({
      parts: [{ type: 'text', text }],
      stop: { reason: 'stop' },
    })
    const events = eventsOf({ id: 'a', model: 'm', choices: [createChoice('x'), createChoice('y')] })
    const chunks = encodeEvents(openaiChat, events).flatMap(
      ({ data }) => (data.choices ?? []) as Record<string, unknown>[],
    )
    for (const index of [0, 1]) {
      const own = chunks.filter(choice => choice.index === index)
      assert.deepEqual(own[0]?.delta, { role: 'assistant', content: '' })
      assert.equal(own.at(-1)?.finish_reason, 'stop')
    }
  })
})

describe('a stream of messages', () => {
  const started = {
    type: 'message_start',
    message: { id: 'm', model: 'x', usage: { input_tokens: 1, output_tokens: 1 } },
  }
  const stopped = [
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
    { type: 'message_stop' },
  ]
  const block = (index: number, content_block: object, ...deltas: readonly object[]) => [
    { type: 'content_block_start', index, content_block },
    ...deltas.map(delta => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]

  it('continues the text if a proxy starts the stream again', () => {
    const words = (text: string) => block(0, { type: 'text', text: '' }, { type: 'text_delta', text })
    const bytes = sse(started, ...words('a'), started, ...words('b'), ...stopped)
    assert.deepEqual(answer(anthropic, bytes).choices[0]?.parts, [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ])
  })

  it('ends with an error if a call would be made twice', () => {
    const call = block(0, { type: 'tool_use', id: 'x', name: 'f', input: {} })
    assert.match(errorOf(anthropic, sse(started, ...call, started)).message, /restarted/)
  })

  it('preserves the vendor’s own blocks, with the content that was streamed into them', () => {
    const search = block(
      0,
      { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
      { type: 'input_json_delta', partial_json: '{"query":' },
      { type: 'input_json_delta', partial_json: '"x"}' },
    )
    const value = { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'x' } }
    assert.deepEqual(answer(anthropic, sse(started, ...search, ...stopped)).choices[0]?.parts, [
      { type: 'vendor', format: 'anthropic', value },
    ])
  })

  it('ends with an error if the vendor reports one inside it', () => {
    const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
    assert.equal(errorOf(anthropic, sse(started, overloaded)).kind, 'overloaded')
  })

  it('numbers blocks from 0, closes each before the next, and names every event', () => {
    const events = eventsOf({
      id: 'a',
      model: 'm',
      choices: [
        {
          parts: [
            { type: 'vendor', format: 'elsewhere', value: { type: 'odd' } },
            { type: 'reasoning', text: 'Hm' },
            { type: 'reasoning', text: '', encrypted: { format: 'anthropic', value: 'blob' } },
            { type: 'text', text: 'Hi' },
            {
              type: 'toolCall',
              id: 'x',
              name: 'f',
              arguments: '{"a":1}',
              signature: { format: 'gemini', value: 's' },
            },
            { type: 'media', kind: 'image', source: { data: 'AAAA' }, mediaType: 'image/png' },
          ],
          stop: { reason: 'tools' },
        },
      ],
    })
    const frames = encodeEvents(anthropic, events)
    let open: unknown
    let next = 0
    for (const { event, data } of frames) {
      assert.equal(event, data.type)
      if (event === 'content_block_start') {
        assert.equal(open, undefined, 'the one before is closed')
        assert.equal(data.index, next)
        open = next
        next += 1
      }
      if (event === 'content_block_delta') assert.equal(data.index, open)
      if (event === 'content_block_stop') open = undefined
    }
    assert.equal(next, 6)
    assert.deepEqual(
      frames.slice(-2).map(({ event }) => event),
      ['message_delta', 'message_stop'],
    )
  })
})

describe('a stream meter', () => {
  const CHUNK = 97
  const chunksOf = (bytes: Buffer) =>
    Array.from({ length: Math.ceil(bytes.length / CHUNK) }, (_, at) =>
      bytes.subarray(at * CHUNK, (at + 1) * CHUNK),
    )

  for (const upstream of [openaiChat, anthropic, responses]) {
    for (const { name, value } of transcriptsOf(upstream.name).streams) {
      law(`forwards ${name} unchanged, with its end held back until last`, { transcript: name }, () => {
        const meter = createPassingMeter(upstream.createStreamDecoder({ idsAndClock: still() }))
        const sentChunks = [...chunksOf(value).flatMap(chunk => meter.push(chunk)), ...meter.end()]
        const output = Buffer.concat([...sentChunks, ...meter.closing()]).toString()
        assert.equal(output.trimEnd(), value.toString().trimEnd())
        const gathered = answerOf(decode(upstream, value))
        assert.equal(meter.ending(), 'error' in gathered ? 'error' : 'complete')
        if ('answer' in gathered) assert.deepEqual(meter.reading.usage, gathered.answer.usage)
      })

      law(`translates ${name}, with its end held back until last`, { transcript: name }, () => {
        const client = upstream === anthropic ? openaiChat : anthropic
        const decoder = upstream.createStreamDecoder({ idsAndClock: still() })
        const meter = createTranslatingMeter({
          decoder,
          encoder: client.createStreamEncoder({ idsAndClock: still() }),
        })
        const sentChunks = [...chunksOf(value).flatMap(chunk => meter.push(chunk)), ...meter.end()]
        assert.equal(meter.ending(), meter.reading.error === undefined ? 'complete' : 'error')
        assert.ok(meter.closing().length > 0)
        // Without the held-back events the client sees the response as incomplete.
        const last = decode(client, Buffer.concat(sentChunks)).at(-1)
        if (client === anthropic) assert.equal(last?.type, 'error')
        assert.equal(
          decode(client, Buffer.concat([...sentChunks, ...meter.closing()])).at(-1)?.type,
          meter.reading.error === undefined ? 'end' : 'error',
        )
      })
    }
  }

  it('adds the usage that the provider did not report', () => {
    const decoder = openaiChat.createStreamDecoder({ idsAndClock: still() })
    const encoder = anthropic.createStreamEncoder({ idsAndClock: still() })
    const meter = createTranslatingMeter({ decoder, encoder })
    meter.push(sse({ id: 'a', choices: [{ index: 0, delta: { content: 'x' } }] }))
    assert.equal(meter.ending(), 'incomplete')
    const bytes = Buffer.concat(meter.endWithError({ kind: 'timeout', message: 'The provider fell silent' }))
    assert.match(bytes.toString(), /^event: error\ndata: .*timeout_error.*fell silent/)
  })
})

describe('a stream of responses', () => {
  const events = eventsOf({
    id: 'a',
    model: 'm',
    choices: [
      {
        parts: [
          { type: 'reasoning', text: 'Hm' },
          { type: 'text', text: 'Hi' },
          { type: 'refusal', text: 'No' },
          { type: 'toolCall', id: 'x', name: 'f', arguments: '{"a":1}' },
        ],
        stop: { reason: 'tools' },
      },
    ],
  })

  it('numbers its events without a gap and repeats the complete response in the last', () => {
    const frames = encodeEvents(responses, events)
    assert.deepEqual(
      frames.map(({ data }) => data.sequence_number),
      frames.map((_, at) => at),
    )
    const last = frames.at(-1)?.data as {
      type: string
      response: { output: { type: string }[]; status: string }
    }
    assert.equal(last.type, 'response.completed')
    assert.deepEqual(
      last.response.output.map(({ type }) => type),
      ['reasoning', 'message', 'function_call'],
    )
  })

  it('sends the start and the end of every item and part', () => {
    const kinds = encodeEvents(responses, events).map(({ data }) => String(data.type))
    const count = (kind: string) => kinds.filter(each => each === kind).length
    for (const what of ['output_item', 'content_part', 'reasoning_summary_part']) {
      assert.ok(count(`response.${what}.added`) > 0, what)
      assert.equal(count(`response.${what}.added`), count(`response.${what}.done`), what)
    }
    assert.deepEqual(kinds.slice(0, 2), ['response.created', 'response.in_progress'])
  })

  it('reports a failure as an event and as the status of the response', () => {
    const failed: readonly ChatEvent[] = [
      ...events.slice(0, 3),
      { type: 'error', error: { kind: 'overloaded', message: 'Too busy' } },
    ]
    const frames = encodeEvents(responses, failed).slice(-2)
    assert.deepEqual(
      frames.map(({ event }) => event),
      ['error', 'response.failed'],
    )
    assert.equal(
      frames.some(({ isDone }) => isDone),
      false,
    )
  })

  it('reads a response whose only content is in the last event', () => {
    const response = {
      id: 'resp_1',
      model: 'm',
      status: 'completed',
      output: [
        {
          type: 'message',
          role: 'assistant',
          content: [{ type: 'output_text', text: 'Hi', annotations: [] }],
        },
      ],
      usage: { input_tokens: 1, output_tokens: 1 },
    }
    const bytes = sse({ type: 'response.completed', response })
    assert.deepEqual(answer(responses, bytes).choices[0]?.parts, [{ type: 'text', text: 'Hi' }])
  })

  it('ends with an error if it fails with a success status', () => {
    const failed = {
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'insufficient_quota', message: 'Pay' } },
    }
    assert.equal(errorOf(responses, sse(failed)).kind, 'quota')
  })
})

/** docs/reference/formats.md: Gemini differences. */
describe('a stream of generateContent', () => {
  const piece = (parts: readonly object[], rest: object = {}) => ({
    candidates: [{ content: { parts, role: 'model' }, index: 0, ...rest }],
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2 },
    modelVersion: 'gemini-2.5-flash',
    responseId: 'r1',
  })
  const stopped = { finishReason: 'STOP' }
  const choiceOf = (bytes: Buffer) => answer(gemini, bytes).choices[0]

  it('adds the signature in an empty text to the text before it', () => {
    const choice = choiceOf(
      sse(piece([{ text: 'Hi' }]), piece([{ text: '', thoughtSignature: 'c2ln' }], stopped)),
    )
    const signature = { format: 'gemini', value: 'c2ln' }
    assert.deepEqual(choice?.parts, [{ type: 'text', text: 'Hi', signature }])
  })

  it('distinguishes reasoning from text and from calls with signatures', () => {
    const choice = choiceOf(
      sse(
        piece([{ text: 'hm', thought: true }]),
        piece([
          { functionCall: { name: 'a', args: { x: 1 } }, thoughtSignature: 'c2ln' },
          { functionCall: { name: 'b', args: {}, id: 'own' } },
        ]),
        piece([{ text: '' }], stopped),
      ),
    )
    assert.deepEqual(choice?.parts, [
      { type: 'reasoning', text: 'hm' },
      {
        type: 'toolCall',
        id: 'call_1',
        name: 'a',
        arguments: '{"x":1}',
        signature: { format: 'gemini', value: 'c2ln' },
      },
      { type: 'toolCall', id: 'own', name: 'b', arguments: '{}' },
    ])
    assert.equal(choice?.stop.reason, 'tools')
  })

  it('joins arguments that arrive in parts, also if the last part is missing', () => {
    const call = (functionCall: object) => piece([{ functionCall }])
    const bytes = sse(
      call({ name: 'cook', willContinue: true }),
      call({
        partialArgs: [{ jsonPath: '$.steps[0].do', stringValue: 'bo', willContinue: true }],
        willContinue: true,
      }),
      call({ partialArgs: [{ jsonPath: '$.steps[0].do', stringValue: 'il' }], willContinue: true }),
      call({
        partialArgs: [
          { jsonPath: '$.steps[1].minutes', numberValue: 3 },
          { jsonPath: "$['is done']", boolValue: false },
          { jsonPath: '$.__proto__.x', nullValue: 'NULL_VALUE' },
        ],
        willContinue: true,
      }),
      { candidates: [{ index: 0, ...stopped }] },
    )
    const [part] = choiceOf(bytes)?.parts ?? []
    assert.equal(
      part?.type === 'toolCall' && part.arguments,
      '{"steps":[{"do":"boil"},{"minutes":3}],"is done":false,"__proto__":{"x":null}}',
    )
  })

  it('ends with a content filter if the prompt was blocked, for any number of choices', () => {
    const bytes = sse({ promptFeedback: { blockReason: 'SAFETY' }, usageMetadata: { promptTokenCount: 4 } })
    const events = decode(gemini, bytes, 3)
    const gathered = answerOf(events)
    assert.ok('answer' in gathered)
    assert.equal(gathered.answer.choices[0]?.stop.reason, 'filter')
    assert.equal(gathered.answer.usage?.input, 4)
    const [frame] = encodeEvents(gemini, events)
    assert.deepEqual(frame?.data.promptFeedback, { blockReason: 'SAFETY' })
  })

  it('is an error if the model could not use its tools, or the vendor reports one', () => {
    const failed = piece([], { finishReason: 'MALFORMED_FUNCTION_CALL', finishMessage: 'print(x)' })
    assert.deepEqual(errorOf(gemini, sse(failed)).message, 'print(x)')
    const status = { error: { code: 429, message: 'slow down', status: 'RESOURCE_EXHAUSTED' } }
    assert.equal(errorOf(gemini, sse(piece([{ text: 'a' }]), status)).kind, 'rateLimit')
  })

  it('is incomplete if fewer choices have ended than were requested', () => {
    assert.equal(decode(gemini, sse(piece([{ text: 'a' }], stopped)), 2).at(-1)?.type, 'error')
  })

  it('cites pages by byte offsets', () => {
    const groundingMetadata = {
      groundingChunks: [{ web: { uri: 'https://a.example', title: 'A' } }],
      groundingSupports: [
        { segment: { startIndex: 3, endIndex: 7, text: 'now' }, groundingChunkIndices: [0] },
      ],
    }
    const choice = choiceOf(
      sse(piece([{ text: 'é ' }]), piece([{ text: 'noé' }], { ...stopped, groundingMetadata })),
    )
    const [part] = choice?.parts ?? []
    assert.deepEqual(part?.type === 'text' && part.citations, [
      { url: 'https://a.example', title: 'A', start: 2, end: 5 },
    ])
  })

  it('is forwarded with its last event held back, because nothing follows it', () => {
    const meter = createPassingMeter(gemini.createStreamDecoder({ idsAndClock: still() }))
    const first = sse(piece([{ text: 'Hi' }]))
    const last = sse(piece([{ text: '' }], stopped))
    assert.deepEqual(Buffer.concat(meter.push(Buffer.concat([first, last]))), first)
    assert.deepEqual(meter.end(), [])
    assert.equal(meter.ending(), 'complete')
    assert.deepEqual(Buffer.concat(meter.closing()), last)
  })

  it('is one JSON list for a client that does not use SSE, also if it breaks off', () => {
    const events = eventsOf({
      id: 'r',
      model: 'm',
      choices: [{ parts: [{ type: 'text', text: 'Hi' }], stop: { reason: 'length' } }],
    })
    const list = (chatEvents: readonly ChatEvent[]) => {
      const encoder = geminiList.createStreamEncoder({ idsAndClock: still() })
      return JSON.parse(
        Buffer.concat([...chatEvents.flatMap(event => encoder.push(event)), ...encoder.end()]).toString(),
      ) as { candidates?: { finishReason?: string }[]; error?: { code: number } }[]
    }
    assert.equal(list(events).at(-1)?.candidates?.[0]?.finishReason, 'MAX_TOKENS')
    assert.equal(list(events.slice(0, 3)).at(-1)?.error?.code, 502)
  })
})

describe('a translated stream', () => {
  // The SDK of Google for Python, and all clients that read lines with `httpx`, split lines as Unicode does.
  for (const format of [...FORMATS, geminiList])
    it(`has no line break of Unicode inside an event, in ${format.name}`, () => {
      const text = 'one\u2028two\u2029three\u0085four'
      const events = eventsOf({
        id: 'r',
        model: 'm\u2028',
        choices: [{ parts: [{ type: 'text', text }], stop: { reason: 'stop' } }],
      })
      const encoder = format.createStreamEncoder({ idsAndClock: still() })
      const bytes = Buffer.concat([...events.flatMap(event => encoder.push(event)), ...encoder.end()])
      assert.doesNotMatch(bytes.toString(), /[\u0085\u2028\u2029]/)
      assert.match(bytes.toString(), /one\\u2028two\\u2029three\\u0085four/)
    })
})
