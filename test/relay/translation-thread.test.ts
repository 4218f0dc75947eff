import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Refusal } from '../../src/domain/errors.ts'
import { EMPTY } from '../../src/domain/usage.ts'
import { createBudget } from '../../src/http/budget.ts'
import { providerOf } from '../../src/providers/index.ts'
import type { RelayChannel } from '../../src/relay/catalog/catalog.ts'
import { createIdsAndClock } from '../../src/relay/ids-and-clock.ts'
import { messages } from '../../src/relay/operations/chats.ts'
import { chat } from '../../src/relay/operations/openai.ts'
import type { OperationSpec, ReadContext } from '../../src/relay/operations/operation.ts'
import { createTranslator } from '../../src/relay/operations/translator.ts'

/** The fields of a channel that a translation needs. */
const channelOf = (type: number, members: object = {}) =>
  ({
    id: type,
    provider: providerOf(type),
    override: { members, operations: [] },
    setting: {},
  }) as unknown as RelayChannel

const OPENAI = channelOf(1)
const ANTHROPIC = channelOf(14)

const failures: Error[] = []
const MAX_BYTES = 64 * 1_048_576
const openTranslator = () => {
  const memory = createBudget({ maxBytes: MAX_BYTES, onShortage() {} })
  return { memory, translator: createTranslator({ memory, onFailure: error => failures.push(error) }) }
}
const { translator } = openTranslator()
after(() => translator.close())

const inline: ReadContext = {
  settings: () => {
    throw new Error('no settings are needed')
  },
  isServed: () => true,
  idsAndClock: createIdsAndClock(Date.now),
}
const threaded: ReadContext = { ...inline, translator }

const readChat: NonNullable<OperationSpec['read']> = chat.read

const turns = (count: number, text: string) =>
  Array.from({ length: count }, (_, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content: text }))

const bytesOf = (body: object) => Buffer.from(JSON.stringify(body))
const wholeAnswer = (body: object) =>
  ({ kind: 'buffered', status: 200, headers: {}, body: bytesOf(body) }) as const

describe('a large request for a channel of another format', () => {
  const body = { model: 'm', max_tokens: 9, messages: turns(301, 'é"\\\n'.repeat(300)) }
  const bytes = bytesOf(body)

  it('is translated like a small one, for one channel after the other', async () => {
    const expected = readChat(body, bytes, inline)
    const work = readChat(body, bytes, threaded)
    for (const channel of [ANTHROPIC, channelOf(24), channelOf(14, { top_k: 3 })]) {
      const direct = await expected.requestFor(channel, 'sent')
      const request = work.requestFor(channel, 'sent')
      assert.ok(request instanceof Promise)
      const { body: translated, warnings, headers } = await request
      assert.ok(Buffer.isBuffer(translated))
      assert.deepEqual(JSON.parse(translated.toString()), JSON.parse(String(direct.body)))
      assert.deepEqual([warnings, headers], [direct.warnings, direct.headers])
    }
    work.dispose?.()
  })

  it('is rejected like a small one', async () => {
    const unreadable = {
      ...body,
      messages: [...body.messages, { role: 'user', content: [{ type: 'text' }] }],
    }
    const refusalOf = (context: ReadContext) =>
      Promise.try(() =>
        readChat(unreadable, bytesOf(unreadable), context).requestFor(ANTHROPIC, 'sent'),
      ).then(
        () => assert.fail('it was taken'),
        error => error as Refusal,
      )
    const refusal = await refusalOf(threaded)
    const { code, message, errors } = await refusalOf(inline)
    assert.ok(refusal instanceof Refusal)
    assert.deepEqual([refusal.code, refusal.message, refusal.errors], [code, message, errors])
  })
})

describe('a large response from a channel of another format', () => {
  const question = { model: 'm', max_tokens: 9, messages: turns(1, 'hi') }
  const answerText = 'all is well '.repeat(50_000)
  const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 }
  const completion = (extra: object) =>
    wholeAnswer({
      id: 'x',
      object: 'chat.completion',
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: answerText } }],
      ...extra,
    })
  const requestOf = (context: ReadContext) =>
    Promise.resolve(messages.read(question, bytesOf(question), context).requestFor(OPENAI, 'sent'))

  it('is parsed and written like a small one', async () => {
    const request = await requestOf(threaded)
    const reading = await request.readBuffered(completion({ usage }))
    assert.deepEqual([reading.usage?.input, reading.usage?.output], [3, 5])
    assert.ok(typeof reading.answer === 'object')
    const { content } = JSON.parse(reading.answer.body.toString())
    assert.deepEqual(content, [{ type: 'text', text: answerText }])
  })

  it('is written with the counted usage if the provider reports none', async () => {
    const request = await requestOf(threaded)
    const reading = await request.readBuffered(completion({}))
    assert.deepEqual([reading.usage, reading.outputBytes], [undefined, answerText.length])
    assert.ok(answerText.startsWith(reading.sample?.text() ?? 'nothing'))
    assert.ok(typeof reading.answer === 'function')
    const { body } = await reading.answer({ ...EMPTY, input: 11, output: 22 })
    const answer = JSON.parse(body.toString())
    assert.deepEqual([answer.usage.input_tokens, answer.usage.output_tokens], [11, 22])
  })

  it('fails like a small one', async () => {
    const request = await requestOf(threaded)
    const { body } = completion({})
    const { fault } = await request.readBuffered({ ...completion({}), body: body.subarray(0, -1) })
    assert.equal(fault, 'the response is not valid JSON')
  })
})

describe('the copies for the thread', () => {
  const body = { model: 'm', max_tokens: 9, messages: turns(301, 'x'.repeat(2_000)) }
  const bytes = bytesOf(body)
  const { memory, translator: counted } = openTranslator()
  after(() => counted.close())
  const workOf = () => readChat(body, bytes, { ...inline, translator: counted })

  it('count against the memory budget until the work ends', async () => {
    const work = workOf()
    await work.requestFor(ANTHROPIC, 'sent')
    assert.equal(memory.used(), bytes.length)
    await work.requestFor(channelOf(24), 'sent')
    assert.equal(memory.used(), bytes.length)
    work.dispose?.()
    assert.equal(memory.used(), 0)
  })

  it('are refused if the budget is used up', async () => {
    memory.take(MAX_BYTES)
    const work = workOf()
    await assert.rejects(async () => work.requestFor(ANTHROPIC, 'sent'), { code: 'overloaded' })
    memory.give(MAX_BYTES)
    assert.equal(memory.used(), 0)
  })
})

it('work that waits for a thread fails when the thread is closed', async () => {
  const other = openTranslator().translator
  const body = { model: 'm', max_tokens: 9, messages: turns(20_000, 'hi') }
  const request = Promise.resolve(
    readChat(body, bytesOf(body), { ...inline, translator: other }).requestFor(ANTHROPIC, 'sent'),
  )
  const failed = assert.rejects(request, /the thread is closed/)
  // By then the request has been copied in slices, one per event loop turn, and posted to the thread.
  for (let turn = 0; turn < 20; turn++) await setImmediate()
  await other.close()
  await failed
  assert.deepEqual(failures, [])
})
