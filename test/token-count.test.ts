import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { countedUsage } from '../src/domain/usage.ts'
import { promptText } from '../src/formats/openai/prompt-text.ts'
import { createTextSample } from '../src/formats/openai/text-sample.ts'
import { countUsage } from '../src/relay/count.ts'
import { chat } from '../src/relay/operations/openai.ts'
import { createTokenCounter, MAX_COUNTED_LENGTH, type TokenCounter } from '../src/relay/token-count.ts'
import { DESK } from './support/desk.ts'
import { ENGINES } from './support/gateway.ts'
import { startRecorder } from './support/recorder.ts'
import { openRelay, type Relay } from './support/relay.ts'

const PATIENT_MS = 60_000
const WORDS = 'The quick brown fox jumps over the lazy dog, 你好世界, naïve café. '

describe('the counter of tokens', () => {
  let counter: TokenCounter
  before(() => {
    counter = createTokenCounter({ waitMs: PATIENT_MS, firstWaitMs: PATIENT_MS, onFailure: assert.ifError })
  })
  after(() => counter.close())

  it('counts as the table does, whatever words a text holds', async () => {
    for (const text of ['Hello world', WORDS.repeat(10), 'a <|endoftext|> b'])
      assert.equal(await counter.count(text), countTokens(text, { disallowedSpecial: new Set() }))
    assert.equal(await counter.count(''), 0)
  })

  it('counts a long text in pieces, and nearly the same', async () => {
    const text = WORDS.repeat(2_000)
    const tokens = await counter.count(text)
    assert.ok(tokens !== undefined && Math.abs(tokens / countTokens(text) - 1) < 0.01, String(tokens))
    assert.ok((await counter.count('x'.repeat(200_000))) !== undefined)
  })

  it('gives up on what is too long, and on more than it can hold', async () => {
    assert.equal(await counter.count('x'.repeat(MAX_COUNTED_LENGTH + 1)), undefined)
    const asked = Array.from({ length: 100 }, () => counter.count(WORDS))
    const counts = await Promise.all(asked)
    assert.equal(counts.filter(tokens => tokens === undefined).length, 36)
  })

  it('answers nothing instead of waiting for a thread that is too slow or gone', async () => {
    const hasty = createTokenCounter({ waitMs: 0, firstWaitMs: 0, onFailure: assert.ifError })
    assert.equal(await hasty.count(WORDS.repeat(1_000)), undefined)
    await hasty.close()
    const closing = createTokenCounter({ firstWaitMs: PATIENT_MS, onFailure: assert.ifError })
    const asked = closing.count(WORDS)
    await closing.close()
    assert.equal(await asked, undefined)
  })

  it('waits longer for the first count, which loads the table', async () => {
    const loading = createTokenCounter({ waitMs: 0, firstWaitMs: PATIENT_MS, onFailure: assert.ifError })
    assert.equal(await loading.count('Hello world'), 2)
    assert.equal(await loading.count(WORDS.repeat(1_000)), undefined)
    await loading.close()
  })

  it('takes the rest of a text to be like its beginning', async () => {
    const content = WORDS.repeat(5_000)
    const body = { model: 'm', messages: [{ role: 'user', content }] }
    const work = chat.read(body, Buffer.from(JSON.stringify(body)), DESK, undefined)
    const guess = (tokens: number) => countedUsage(work.countedInput, tokens)
    const sample = createTextSample()
    const written = Buffer.from(WORDS.repeat(500))
    sample.take(written, 0, written.length)
    const { usage, by } = await countUsage(counter, work, { bytes: written.length, sample }, guess)
    assert.equal(by, 'o200k_base')
    assert.ok(Math.abs(usage.input / countTokens(content) - 1) < 0.02)
    assert.ok(Math.abs(usage.output / countTokens(WORDS.repeat(500)) - 1) < 0.02)
    const nobody = { count: async () => undefined, close: async () => {} }
    const estimated = await countUsage(nobody, work, { bytes: 40 }, guess)
    assert.deepEqual(
      [estimated.by, estimated.usage.input, estimated.usage.output],
      ['bytes', work.countedInput, 10],
    )
  })
})

describe('the text of a prompt', () => {
  it('is what the model is shown: no roles, no pictures, tools as they are written', () => {
    const tools = [{ type: 'function', function: { name: 'f' } }]
    const content = [
      { type: 'text', text: 'What is this?' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
    ]
    const { text, extra } = promptText({ model: 'm', messages: [{ role: 'user', content }], tools }, 100)
    assert.equal(text, `What is this?\n${JSON.stringify(tools)}`)
    assert.equal(extra, 100 + 4 + 3)
    assert.equal(promptText({ input: [[1, 2, 3]] }, 0).extra, 3)
  })

  it('keeps of an answer a sample of bounded size, unescaped', () => {
    const sample = createTextSample()
    const first = Buffer.from('"a\\n\\u00e9 "')
    sample.take(first, 1, first.length - 1)
    assert.equal(sample.text(), 'a\né ')
    const long = Buffer.from('word '.repeat(10_000))
    sample.take(long, 0, long.length)
    sample.take(first, 1, first.length - 1)
    assert.ok(sample.text().length <= 16 * 1024)
    assert.match(sample.text(), /word$/)
  })
})

for (const engine of ENGINES)
  describe(`a provider that tells no usage, on ${engine}`, () => {
    let relay: Relay
    let provider: Awaited<ReturnType<typeof startRecorder>>
    before(async () => {
      relay = await openRelay(engine)
      provider = await startRecorder()
      const message = { role: 'assistant', content: WORDS }
      provider.answers({ body: { choices: [{ index: 0, message, finish_reason: 'stop' }] } })
    })
    after(async () => {
      await relay.gateway.close()
      await provider.close()
    })

    /** The first count waits for the table, longer than a settlement does: it is asked again until it is there. */
    async function countedRow(ask: (key: string) => Promise<unknown>) {
      for (let turn = 0; ; turn++) {
        const { id, key } = await relay.newToken()
        await ask(key)
        const row = await relay.rowOf(id)
        assert.equal(row.other.source, 'counted')
        if (row.other.counted_by === 'o200k_base' || turn === 20) return row
      }
    }

    it('is counted by the table, whole and streamed', async () => {
      const whole = await relay.serve('sent', { base_url: provider.url })
      const messages = [{ role: 'user', content: WORDS }]
      const row = await countedRow(key => relay.chat(key, { model: whole.model, messages }))
      assert.equal(row.other.counted_by, 'o200k_base')
      assert.equal(row.prompt_tokens, countTokens(WORDS) + 7)
      assert.equal(row.completion_tokens, countTokens(WORDS))
      const streamed = await relay.serve('sim-words-40-nousage')
      const next = await countedRow(key => relay.chat(key, { model: streamed.model, messages, stream: true }))
      assert.equal(next.other.counted_by, 'o200k_base')
      assert.equal(next.prompt_tokens, countTokens(WORDS) + 7)
    })

    it('is not refused for its bytes where a count shows that the quota covers it', async () => {
      const { model } = await relay.serve('sent', { base_url: provider.url })
      const content = 'international '.repeat(2_000)
      // 28,000 bytes at 1,000 nanodollars are 14,000 units; the tokens are 4,000 and a bound of them 6,000.
      const ask = (key: string, text: string) =>
        relay.chat(key, { model, messages: [{ role: 'user', content: text }], max_tokens: 1 })
      const { key } = await relay.newToken({ remain_quota: 8_000 })
      let reply = await ask(key, content)
      for (let turn = 0; reply.status === 429 && turn < 20; turn++) reply = await ask(key, content)
      assert.equal(reply.status, 200, reply.text)
      const { key: poor } = await relay.newToken({ remain_quota: 500 })
      const refused = await ask(poor, content)
      assert.equal(refused.status, 429)
      assert.equal(refused.body.error.code, 'insufficient_quota')
    })
  })
