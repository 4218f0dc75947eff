import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import {
  type Answer,
  type AnsweringProvider,
  openAnsweringProvider,
  streamed,
  whole,
} from '../../support/answering-provider.ts'
import { suiteRelay } from '../../support/relay.ts'

const MB = 1_048_576
const USAGE = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 }

const brackets = (count: number) => `${'['.repeat(count)}${']'.repeat(count)}`
const names = (count: number) =>
  `{${Array.from({ length: count }, (_, index) => `"a name of its own ${index}":1`).join(',')}}`

/** Input that stalls a parser, out of all proportion to its size. */
const HOSTILE = {
  brackets: brackets(MB),
  names: names(50_000),
  'deep objects': `${'{"a":'.repeat(200)}1${'}'.repeat(200)}`,
}

/** A response of each format with an additional member, and the channel type with that format. */
const FORMATS = {
  openai: {
    type: 1,
    body: (extra: string) =>
      `{"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}],"usage":${JSON.stringify(USAGE)},"extra":${extra}}`,
  },
  anthropic: {
    type: 14,
    body: (extra: string) =>
      `{"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":5},"extra":${extra}}`,
  },
  gemini: {
    type: 24,
    body: (extra: string) =>
      `{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":5,"totalTokenCount":8},"extra":${extra}}`,
  },
} as const

const GOOD = whole(FORMATS.openai.body('1'))

describe('a provider with hostile responses', () => {
  const relay = suiteRelay('sqlite')
  let provider: AnsweringProvider

  before(async () => {
    provider = await openAnsweringProvider()
  })
  after(async () => {
    provider.close()
  })

  /** A model whose first channel sends this response; the second, if there is one, responds normally. */
  async function serve(answer: Answer, { type = 1, hasOther = false } = {}) {
    const { model, channels } = await relay.serve(provider.answering(answer), {
      base_url: provider.url,
      type,
    })
    if (hasOther) {
      const sentModel = provider.answering(GOOD)
      const mapping = { models: [model], model_mapping: { [model]: sentModel } }
      await relay.addChannel({ name: `${model} other`, base_url: provider.url, priority: 1, ...mapping })
    }
    const { id, key } = await relay.newToken()
    const ask = (more = {}) =>
      relay.chat(key, { model, max_tokens: 20, messages: [{ role: 'user', content: 'Hi' }], ...more })
    return { id, key, model, channels, ask }
  }

  for (const [format, { type, body }] of Object.entries(FORMATS))
    for (const [name, extra] of Object.entries(HOSTILE))
      it(`causes a failover, and is paid nothing: ${name} in a response of the format ${format}`, async () => {
        const { id, ask } = await serve(whole(body(extra)), { type, hasOther: true })
        const reply = await ask()
        assert.equal(reply.status, 200, reply.text.slice(0, 300))
        assert.equal(reply.body.choices[0].message.content, 'hi')
        assert.ok(!reply.text.includes('"extra":['))
        const { other } = await relay.rowOf(id)
        assert.match(String(other.trace.attempts[0].status), /nested deeper than 128|different names/)
      })

  it('ends with 502 if no other channel responds, and costs nothing', async () => {
    const { id, ask } = await serve(whole(FORMATS.openai.body(HOSTILE.brackets)))
    const reply = await ask()
    assert.equal(reply.status, 502)
    assert.equal(reply.body.error.code, 'upstream_error')
    assert.equal((await relay.rowOf(id)).cost, 0)
  })

  it('that sends an error of nested brackets is an error without a message', async () => {
    const { ask } = await serve(whole(brackets(30_000), { status: 400 }))
    const reply = await ask()
    assert.equal(reply.status, 400)
    assert.equal(typeof reply.body.error.message, 'string')
  })

  it('that sends nested brackets in an event ends the stream with an error for the client', async () => {
    const event = `data: {"type":"message_start","message":${brackets(200_000)}}\n\n`
    const { ask } = await serve(streamed([`event: message_start\n${event}`]), { type: 14 })
    const reply = await ask({ stream: true })
    const isReported = reply.status === 502 || /"error"/.test(reply.text)
    assert.ok(isReported, reply.text.slice(0, 300))
    assert.ok(!reply.text.includes('[DONE]'))
  })

  it('may send a large response of many values, which is forwarded unchanged', async () => {
    const logprobs = {
      content: Array.from({ length: 40_000 }, () => ({ token: 'a', logprob: -0.1, bytes: [97] })),
    }
    const content = 'x'.repeat(MB)
    const choice = { index: 0, finish_reason: 'stop', message: { role: 'assistant', content }, logprobs }
    const text = JSON.stringify({ id: 'x', object: 'chat.completion', choices: [choice], usage: USAGE })
    const { id, ask } = await serve(whole(text))
    const reply = await ask()
    assert.equal(reply.status, 200, reply.text.slice(0, 300))
    assert.equal(reply.text, text)
    assert.equal((await relay.rowOf(id)).completion_tokens, 5)
  })

  it('may send a large response in another format, which is translated completely', async () => {
    const longText = '"quoted" \\ é 😀 '.repeat(100_000)
    const body = {
      id: 'x',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [{ type: 'text', text: longText }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 3, output_tokens: 5 },
    }
    const { ask } = await serve(whole(JSON.stringify(body)), { type: 14 })
    const reply = await ask()
    assert.equal(reply.status, 200, reply.text.slice(0, 300))
    assert.equal(reply.body.choices[0].message.content, longText)
  })

  it('has the text of a large response without usage counted', async () => {
    const content = 'word '.repeat(40_000)
    const answer = {
      id: 'x',
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content } }],
    }
    const { id, ask } = await serve(whole(JSON.stringify(answer)))
    assert.equal((await ask({ max_tokens: 50_000 })).status, 200)
    const { completion_tokens, other } = await relay.rowOf(id)
    assert.equal(other.source, 'counted')
    assert.ok(completion_tokens > 20_000, String(completion_tokens))
  })

  it('leaves a ledger that verifies, with nothing held', async () => {
    const { ok, lines } = await relay.gateway.operations.verify({})
    assert.ok(ok, lines.join('\n'))
  })
})
