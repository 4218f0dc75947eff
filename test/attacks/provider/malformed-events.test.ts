import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { anthropic } from '../../../src/chat/anthropic/messages/format.ts'
import { gemini } from '../../../src/chat/gemini/format.ts'
import type { IdsAndClock, Outbound } from '../../../src/chat/hub/format.ts'
import { createPassingMeter } from '../../../src/chat/hub/meter.ts'
import { responses } from '../../../src/chat/openai/responses/format.ts'
import { fc } from '../../support/properties.ts'
import { startRecorder } from '../../support/recorder.ts'
import { INPUT_NANOS, OUTPUT_NANOS, suiteRelay } from '../../support/relay.ts'

const INPUT = 11
const OUTPUT = 7
const RESPONSE = { id: 'resp_1', object: 'response', model: 'm', output: [] }

/** A valid stream of each format: two pieces of text, then the end with the usage. */
const STREAMS = {
  anthropic: [
    { type: 'message_start', message: { id: 'msg_1', model: 'm', usage: { input_tokens: INPUT } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Good ' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'day.' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: OUTPUT } },
    { type: 'message_stop' },
  ],
  responses: [
    { type: 'response.created', response: { ...RESPONSE, status: 'in_progress' } },
    { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'Good ' },
    { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'day.' },
    {
      type: 'response.completed',
      response: {
        ...RESPONSE,
        status: 'completed',
        usage: { input_tokens: INPUT, output_tokens: OUTPUT, total_tokens: INPUT + OUTPUT },
      },
    },
  ],
  gemini: ['Good ', 'day.'].map((text, at) => ({
    candidates: [{ content: { parts: [{ text }] }, index: 0, ...(at === 1 && { finishReason: 'STOP' }) }],
    usageMetadata: { promptTokenCount: INPUT, candidatesTokenCount: OUTPUT },
    modelVersion: 'm',
  })),
} as const satisfies Record<string, readonly object[]>

type FormatName = keyof typeof STREAMS

const FORMATS: Record<FormatName, Outbound> = { anthropic, responses, gemini }
const names = Object.keys(STREAMS) as FormatName[]

const frame = (data: string, event?: string) =>
  `${event === undefined ? '' : `event: ${event}\n`}data: ${data}\n\n`

const frameOf = (event: object) =>
  frame(JSON.stringify(event), 'type' in event ? String(event.type) : undefined)

/** Events that no vendor sends: invalid JSON, truncated JSON, and JSON of unexpected shapes. */
const MALFORMED = [
  frame('this is not JSON'),
  frame('{"type":"content_block_delta","index":0,"delta":{"te'),
  frame('{"half": '),
  frame('null'),
  frame('[]'),
  frame('[1,{"candidates":1}]'),
  frame('"text"'),
  frame('-1e999'),
  frame('{"candidates":"none","usageMetadata":[],"type":7}'),
  frame('{"candidates":[null,{"content":{"parts":[7,{"text":9},{"functionCall":3}]}}]}'),
  frame('{"type":"message_start"}', 'message_start'),
  frame('{"type":"content_block_start","index":"x","content_block":[]}', 'content_block_start'),
  frame('{"type":"content_block_delta","index":{},"delta":7}', 'content_block_delta'),
  frame('{"type":"message_delta","usage":"much","delta":[]}', 'message_delta'),
  frame('{"type":"response.output_item.added","item":3}', 'response.output_item.added'),
  frame('{"type":"response.output_item.done","item":{"type":"reasoning","summary":9}}'),
  frame('{"type":"response.output_text.annotation.added","annotation":"x"}'),
  'data: {"one":\ndata: "two lines',
].map(text => (text.endsWith('\n\n') ? text : `${text}\n\n`))

function idsAndClock(): IdsAndClock {
  let count = 0
  return { newId: prefix => `${prefix}${++count}`, nowS: () => 1_700_000_000 }
}

function pass(name: FormatName, text: string) {
  const meter = createPassingMeter(FORMATS[name].createStreamDecoder({ idsAndClock: idsAndClock() }))
  const sentChunks = [...meter.push(Buffer.from(text)), ...meter.end()]
  const output = Buffer.concat([...sentChunks, ...meter.closing()]).toString()
  return { passed: output, ending: meter.ending(), reading: meter.reading }
}

/** The stream with something before each of its events. */
const spoiled = (name: FormatName, before: (at: number) => string) =>
  STREAMS[name].map((event, at) => before(at) + frameOf(event)).join('')

describe('a malformed event in a stream of the client’s own format', () => {
  for (const name of names) {
    it(`is forwarded unchanged in ${name}, and the usage is still read`, () => {
      for (const malformed of MALFORMED) {
        const text = spoiled(name, () => malformed)
        const { passed: output, ending, reading } = pass(name, text)
        assert.equal(output, text)
        assert.equal(ending, 'complete', malformed)
        assert.equal(reading.usage?.input, INPUT, malformed)
        assert.equal(reading.usage?.output, OUTPUT, malformed)
      }
    })

    it(`is counted in ${name}`, () => {
      const { reading } = pass(
        name,
        spoiled(name, () => frame('{"half": ')),
      )
      assert.equal(reading.malformed, STREAMS[name].length)
    })

    it(`is not treated as the end in ${name}`, () => {
      const events: readonly object[] = STREAMS[name].slice(0, name === 'anthropic' ? -2 : -1)
      const text = events.map(frameOf).join('') + frame('{"type":"message_stop"', 'message_stop')
      assert.equal(pass(name, text).reading.isDone, false)
      assert.notEqual(pass(name, text).ending, 'complete')
    })

    it(`is still an error in ${name} if the provider reports one`, () => {
      const { ending, reading } = pass(
        name,
        spoiled(name, at => (at === 1 ? frame('the machine is on fire', 'error') : '')),
      )
      assert.equal(ending, 'error')
      assert.match(JSON.stringify(reading.error), /the machine is on fire/)
    })

    it(`is forwarded unchanged in ${name}, with any JSON`, () => {
      const isHarmless = (value: unknown) =>
        !/error|response\.|message_stop|finish/.test(JSON.stringify(value))
      fc.assert(
        fc.property(fc.jsonValue().filter(isHarmless), value => {
          const text = spoiled(name, () => frame(JSON.stringify(value)))
          const { passed: output, ending } = pass(name, text)
          assert.equal(output, text)
          assert.equal(ending, 'complete')
        }),
        { numRuns: 200 },
      )
    })
  }
})

describe('a provider that sends malformed events', () => {
  const ROUTES = {
    anthropic: { fields: { type: 14 }, path: () => '/v1/messages', body: { max_tokens: 50 } },
    responses: {
      fields: { type: 1, setting: { chat_formats: ['responses'] } },
      path: () => '/v1/responses',
      body: {},
    },
    gemini: {
      fields: { type: 24 },
      path: (model: string) => `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
      body: {},
    },
  } as const satisfies Record<FormatName, object>
  const PROMPTS = {
    anthropic: { messages: [{ role: 'user', content: 'Hello' }] },
    responses: { input: 'Hello' },
    gemini: { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] },
  } as const satisfies Record<FormatName, object>

  const relay = suiteRelay('sqlite')
  let provider: Awaited<ReturnType<typeof startRecorder>>
  before(async () => {
    provider = await startRecorder()
  })
  after(async () => {
    await provider.close()
  })

  for (const name of names) {
    it(`has its ${name} stream delivered byte for byte to a client of that format, and charged as reported`, async () => {
      const { fields, path, body } = ROUTES[name]
      const { model } = await relay.serve('sent', { ...fields, base_url: provider.url })
      const stream = spoiled(name, at => MALFORMED.filter((_, index) => index % 3 === at % 3).join(''))
      provider.answers({ stream })
      const { id, key } = await relay.newToken()
      const requestBody = { ...body, ...PROMPTS[name], ...(name !== 'gemini' && { model, stream: true }) }
      const reply = await relay.api('POST', path(model), requestBody, { token: key })
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.text, stream)
      const row = await relay.rowOf(id)
      assert.equal(row.type, 2)
      assert.equal(row.cost, INPUT * INPUT_NANOS + OUTPUT * OUTPUT_NANOS)
    })

    it(`ends a translated ${name} stream with an error, never with its normal end`, async () => {
      const { fields } = ROUTES[name]
      const { model } = await relay.serve('sent', { ...fields, base_url: provider.url })
      provider.answers({ stream: spoiled(name, at => (at === 1 ? frame('{"half": ') : '')) })
      const { key } = await relay.newToken()
      const { text } = await relay.chat(key, { model, ...PROMPTS.anthropic, stream: true })
      assert.match(text, /"error":\{/)
      assert.doesNotMatch(text, /\[DONE\]/)
    })
  }
})
