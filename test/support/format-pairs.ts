import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import type { EngineName } from './engines.ts'
import { CLIENTS, type FormatClient, resultOf } from './format-clients.ts'
import { INPUT_NANOS, OUTPUT_NANOS, type Relay, suiteRelay } from './relay.ts'

/** Provider families by their format, each with a simulator model. */
const FAMILIES = {
  'openai-chat': { fields: { type: 1, setting: { chat_formats: ['openai-chat'] } }, base: '' },
  anthropic: { fields: { type: 14 }, base: '/anthropic' },
  responses: { fields: { type: 1, setting: { chat_formats: ['responses'] } }, base: '' },
  gemini: { fields: { type: 24 }, base: '' },
  bedrock: { fields: { type: 33, key: 'AKIAEXAMPLE|bedrock-secret-canary|eu-west-1' }, base: '/bedrock' },
  cohere: { fields: { type: 34, setting: { chat_formats: ['cohere'] } }, base: '/cohere' },
  ollama: { fields: { type: 4, setting: { chat_formats: ['ollama'] } }, base: '/ollama' },
  mistral: { fields: { type: 42 }, base: '/mistral' },
} as const
type Family = keyof typeof FAMILIES
type ClientName = keyof typeof CLIENTS
/** A client with the format of one SDK, and the provider family that serves it. */
export type Pair = readonly [ClientName, Family]

/** Families that report cached tokens. */
const CACHING: readonly Family[] = ['anthropic', 'responses', 'gemini', 'bedrock']
/** Families whose models return reasoning, and those that require its signatures back. */
const PROVING: readonly Family[] = ['anthropic', 'responses', 'gemini', 'bedrock']
const THINKING: readonly Family[] = [...PROVING, 'cohere', 'ollama']

/** Families whose responses do not name the model. */
const NAMELESS: readonly Family[] = ['bedrock', 'cohere']
/** Whether the client gets the model's requested name, not the provider's name of it. */
const namesRequested = (client: string, family: Family) =>
  client !== family && (client === 'anthropic' || NAMELESS.includes(family))

/** Of a generation that supports schemas and takes a reasoning budget. */
const SENT = 'sim-claude-opus-4-5'
const TOOLS = ['get_weather', 'get_time', 'get_news']
const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' }, size: { type: 'integer' } },
  required: ['city', 'size'],
  additionalProperties: false,
}

const openDesk = (relay: Relay) => ({
  async sit(client: keyof typeof CLIENTS, family: Family, sentModel = SENT, price = {}) {
    const { fields, base } = FAMILIES[family]
    const { model } = await relay.serve(sentModel, { ...fields, base_url: relay.upstream + base }, price)
    const { id, key } = await relay.newToken({ remain_quota: 5_000_000 })
    return { model, id, key, api: CLIENTS[client](key, relay.gateway.url) }
  },
})

export const ALL_PAIRS: readonly Pair[] = (Object.keys(CLIENTS) as ClientName[]).flatMap(name =>
  (Object.keys(FAMILIES) as Family[]).map(family => [name, family] as const),
)
const ways = ['whole', 'stream'] as const

/** What a client pays for the usage that it gets, for each of these pairs. */
export function describeCharges(engine: EngineName, pairs: readonly Pair[]): void {
  describe(`the charges for chats on ${engine}`, () => {
    const relay = suiteRelay(engine)

    for (const [name, family] of pairs)
      it(`${name} with ${family}: the reported usage is what the client pays for`, async () => {
        const { sit } = openDesk(relay)
        const { api, model, id } = await sit(name, family, SENT, { cached_input: 0.5, cache_write: 1.25 })
        const text = 'A prompt that is long enough to be cached in part: '.repeat(6)
        const wholeResponse = await api.whole({ model, text })
        const streamed = await api.stream({ model, text })
        const rows = await relay.rowsOf(id, 2)
        for (const [index, { input, output, stop }] of [wholeResponse, streamed].entries()) {
          const row = rows[index]
          assert.ok(row)
          assert.equal(stop, api.stops.whole)
          assert.equal(row.other.source, 'provider')
          assert.equal(row.prompt_tokens, input)
          assert.equal(row.completion_tokens, output)
          const { cache_tokens: cached = 0, cache_write_tokens: cacheWriteTokens = 0 } = row.other
          const plain = input - cached - cacheWriteTokens
          const nanos = plain * INPUT_NANOS + cached * 500 + cacheWriteTokens * 1_250 + output * OUTPUT_NANOS
          assert.equal(row.cost, nanos)
          assert.equal(cached > 0, CACHING.includes(family))
          assert.equal(cacheWriteTokens > 0, family === 'anthropic' || family === 'bedrock')
        }
        assert.equal(await relay.usedBy(id), relay.units(rows.reduce((sum, { cost }) => sum + cost, 0)))
      })
  })
}

/** Text, tools, schemas, images, reasoning and faults, for each of these pairs. */
export function describePairs(pairs: readonly Pair[]): void {
  describe('chats', () => {
    const relay = suiteRelay('sqlite')
    let sit: ReturnType<typeof openDesk>['sit']
    before(async () => {
      sit = openDesk(relay).sit
    })

    for (const [name, family] of pairs)
      describe(`${name} with ${family}`, () => {
        const seat = {} as Awaited<ReturnType<typeof sit>>
        before(async () => {
          Object.assign(seat, await sit(name, family))
        })
        const both = async (
          test: (way: (typeof ways)[number], api: FormatClient, model: string) => Promise<void>,
        ) => {
          for (const way of ways) await test(way, seat.api, seat.model)
        }

        it('supports text', () =>
          both(async (way, api, model) => {
            const { text, model: responseModel } = await api[way]({ model, text: 'hello there' })
            assert.equal(responseModel, namesRequested(name, family) ? model : SENT)
            assert.match(
              text,
              new RegExp(`^Hello! I am ${SENT}.*You wrote: "hello there".*word for word\\.$`),
            )
          }))

        it('supports parallel tool calls and their results', () =>
          both(async (way, api, model) => {
            const question = { model, text: 'use the tools', tools: TOOLS }
            const answer = await api[way](question)
            assert.deepEqual(
              answer.calls.map(call => call.name),
              TOOLS,
            )
            for (const { input } of answer.calls) assert.equal(typeof JSON.parse(input).city, 'string')
            assert.equal(answer.stop, api.stops.tools)
            const after = await api[way](question, { question, told: answer })
            assert.match(after.text, /The tool answered: ".*get_news has an answer/)
            assert.equal(resultOf('get_news'), 'get_news has an answer')
            assert.deepEqual(after.calls, [])
          }))

        it('supports a schema', () =>
          both(async (way, api, model) => {
            const { text } = await api[way]({ model, text: 'which city?', schema: SCHEMA })
            assert.deepEqual(Object.keys(JSON.parse(text)), ['city', 'size'])
          }))

        it('supports an image', async () => {
          const { api, model } = seat
          const without = await api.whole({ model, text: 'look' })
          const { input } = await api.whole({ model, text: 'look', image: true })
          assert.equal(input - without.input, 85)
        })

        if (THINKING.includes(family))
          it('supports reasoning, and returns its signatures to the vendor that made them', () =>
            both(async (way, api, model) => {
              const question = { model, text: 'use the tools', tools: TOOLS, isThinking: true }
              const answer = await api[way](question)
              assert.match(answer.reasoning, /13 letters\. I had better answer/)
              // The simulator rejects calls that come back without the signed reasoning they were made with.
              const after = await api[way](question, { question, told: answer })
              assert.match(after.text, /The tool answered/)
            }))

        it('forwards a rejection by the provider, with its status', async () => {
          const { api, model, id } = await sit(name, family, 'sim-status-422')
          for (const way of ways)
            await assert.rejects(api[way]({ model, text: 'x' }), {
              status: 422,
              message: /told to fail with 422/,
            })
          for (const row of await relay.rowsOf(id, 2)) assert.equal(row.cost, 0)
        })

        it('reports an error inside a stream, and a stream that was cut off', async () => {
          for (const [sentModel, words] of [
            ['sim-error-in-stream', /told to fail in the middle|closed the connection/],
            ['sim-cut-5', /closed the connection/],
            ['sim-eof-5', /closed the connection/],
          ] as const) {
            const { api, model, id } = await sit(name, family, sentModel)
            await assert.rejects(api.stream({ model, text: 'x' }), words)
            const row = await relay.rowOf(id)
            assert.equal(row.type, 2)
            assert.ok(row.cost > 0)
          }
        })

        it('counts tokens if no usage is reported', async () => {
          const { api, model, id } = await sit(name, family, 'sim-nousage')
          await api.whole({ model, text: 'hello there' }).catch(() => {})
          const row = await relay.rowOf(id)
          assert.equal(row.other.source, 'counted')
          assert.ok(row.completion_tokens > 30 && row.completion_tokens < 80, String(row.completion_tokens))
        })

        it('cancels the provider’s response when the client disconnects, and bills the generated output', async () => {
          const { api, model, id } = await sit(name, family, 'sim-words-900-pace-20')
          // Some SDKs end with an error, others without one.
          await Promise.allSettled([api.stream({ model, text: 'x', isLeaving: true })])
          const row = await relay.rowOf(id)
          assert.ok(row.completion_tokens > 0 && row.completion_tokens < 900, String(row.completion_tokens))
        })
      })
  })
}
