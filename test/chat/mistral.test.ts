import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import OpenAI from 'openai'
import { createChunkFitter } from '../../src/chat/openai/chat-completions/chunk-fitter.ts'
import { retryingFetch } from '../support/client.ts'
import { startRecorder } from '../support/recorder.ts'
import { INPUT_NANOS, OUTPUT_NANOS, suiteRelay } from '../support/relay.ts'

const HEAD = { id: 'a', object: 'chat.completion.chunk', created: 1_700_000_000, model: 'mistral-small' }
const USAGE = { prompt_tokens: 13, completion_tokens: 5, total_tokens: 18 }

const chunk = (delta: object, more: object = {}) =>
  `data: ${JSON.stringify({ ...HEAD, choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`
const ended = (delta: object, reason = 'stop') =>
  `data: ${JSON.stringify({ ...HEAD, choices: [{ index: 0, delta, finish_reason: reason }], usage: USAGE })}\n\n`
const DONE = 'data: [DONE]\n\n'

const PLAIN = [
  chunk({ role: 'assistant', content: '' }),
  chunk({ content: 'Good ' }),
  chunk({ content: 'day [{"content":[1]}].' }),
  ended({ content: '' }),
  DONE,
].join('')

const thinking = (text: string) => ({ type: 'thinking', thinking: [{ type: 'text', text }] })
const call = (id: string, name: string, more: object = {}) => ({
  id,
  function: { name, arguments: '{"city": "Rome"}' },
  ...more,
})

function fit(text: string, size: number): string {
  const fitter = createChunkFitter()
  const bytes = Buffer.from(text)
  const pieces: Buffer[] = []
  for (let at = 0; at < bytes.length; at += size) pieces.push(...fitter.push(bytes.subarray(at, at + size)))
  return Buffer.concat([...pieces, ...fitter.end()]).toString()
}

const deltasIn = (text: string) =>
  text
    .split('\n\n')
    .filter(each => each.startsWith('data: {'))
    .map(each => JSON.parse(each.slice(6)).choices[0]?.delta)

describe('chunks of a chat completions variant', () => {
  it('are forwarded byte for byte if clients can read them, however they are split', () => {
    const numbered = chunk({ tool_calls: [call('abcdefghi', 'f', { index: 0, type: 'function' })] })
    const odd = `: comment\n\ndata: {"half": \n\ndata: 7\n\nevent: x\ndata: {"choices":[{"delta":null},3]}\n\n`
    const text = PLAIN.replace(DONE, numbered + odd + DONE)
    for (const size of [1, 7, 100, text.length]) assert.equal(fit(text, size), text)
  })

  it('with content in a list have text and reasoning moved to the fields that clients read', () => {
    const first = chunk({ content: 'a' })
    const text = [
      first,
      chunk({ role: 'assistant', content: [thinking('Hm.'), thinking(' So.')] }),
      chunk({ content: [thinking('Ah.'), { type: 'text', text: 'Four' }, { type: 'text', text: '.' }] }),
      chunk({ content: [{ type: 'reference', reference_ids: [1] }] }),
      DONE,
    ].join('')
    for (const size of [1, 9, text.length]) {
      const fitted = fit(text, size)
      assert.ok(fitted.startsWith(first) && fitted.endsWith(DONE))
      assert.deepEqual(deltasIn(fitted).slice(1), [
        { role: 'assistant', content: null, reasoning_content: 'Hm. So.' },
        { content: 'Four.', reasoning_content: 'Ah.' },
        { content: null },
      ])
    }
  })

  it('with calls without an index are numbered, and later parts stay with their call', () => {
    const text = [
      chunk({ tool_calls: [call('aaaaaaaaa', 'f'), call('bbbbbbbbb', 'g')] }),
      chunk({ tool_calls: [call('ccccccccc', 'h')] }),
      chunk({ tool_calls: [{ function: { name: '', arguments: ' ' } }] }),
      chunk({ tool_calls: [{ id: 'aaaaaaaaa', function: { arguments: ' ' } }] }),
    ].join('')
    const indexes = deltasIn(fit(text, text.length)).map(({ tool_calls }) =>
      tool_calls.map(({ index, type }: { index: number; type: string }) => [index, type]),
    )
    assert.deepEqual(indexes, [
      [
        [0, 'function'],
        [1, 'function'],
      ],
      [[2, 'function']],
      [[2, 'function']],
      [[0, 'function']],
    ])
  })
})

describe('a stream of Mistral for a client of chat completions', () => {
  const relay = suiteRelay('sqlite')
  let provider: Awaited<ReturnType<typeof startRecorder>>
  before(async () => {
    provider = await startRecorder()
  })
  after(async () => {
    await provider.close()
  })

  async function open(stream: string) {
    const { model } = await relay.serve('mistral-small', { type: 42, base_url: provider.url })
    const token = await relay.newToken()
    provider.answers({ stream })
    return { model, ...token }
  }
  const messages = [{ role: 'user', content: 'Hello' }] as const

  for (const [title, more] of Object.entries({
    'a plain request': {},
    'a request that it would refuse as it is': { seed: 1, max_completion_tokens: 20 },
    'a request that asks for the usage': { stream_options: { include_usage: true } },
  }))
    it(`is forwarded byte for byte for ${title}, and charged as reported`, async () => {
      const { model, id, key } = await open(PLAIN)
      const reply = await relay.chat(key, { model, messages, stream: true, ...more })
      assert.equal(reply.text, PLAIN)
      const row = await relay.rowOf(id)
      assert.equal(row.other.source, 'provider')
      assert.equal(row.cost, 13 * INPUT_NANOS + 5 * OUTPUT_NANOS)
      const sentBody = provider.last().body
      for (const name of ['stream_options', 'seed', 'max_completion_tokens'])
        assert.ok(!(name in sentBody), name)
    })

  it('is requested with the bytes of a client that uses Mistral’s own fields', async () => {
    const { model, key } = await open(PLAIN)
    const body = { model, stream: true, messages, safe_prompt: true, random_seed: 7 }
    await relay.chat(key, body)
    assert.deepEqual(provider.last().body, { ...body, model: 'mistral-small' })
  })

  it('is requested without message fields that only other vendors support', async () => {
    const { model, key } = await open(PLAIN)
    const assistantMessage = { role: 'assistant', content: 'Hi', reasoning_content: 'Hm', refusal: null }
    const conversation = [...messages, assistantMessage, ...messages]
    const reply = await relay.chat(key, { model, stream: true, messages: conversation })
    assert.equal(reply.text, PLAIN)
    const sentMessages = provider.last().body.messages as readonly object[]
    assert.deepEqual(sentMessages[1], {
      role: 'assistant',
      content: [thinking('Hm'), { type: 'text', text: 'Hi' }],
    })
  })

  it('has its calls and reasoning collected by the SDK', async () => {
    const calls = [call('aaaaaaaaa', 'look'), call('bbbbbbbbb', 'find')]
    const { model, key } = await open(
      chunk({ role: 'assistant', content: [thinking('Hm.')] }) +
        chunk({ content: [{ type: 'text', text: 'Let me look.' }] }) +
        ended({ content: null, tool_calls: calls }, 'tool_calls') +
        DONE,
    )
    const client = new OpenAI({
      apiKey: key,
      baseURL: `${relay.gateway.url}/v1`,
      fetch: retryingFetch,
      maxRetries: 0,
    })
    const tools = ['look', 'find'].map(name => ({
      type: 'function' as const,
      function: { name, parameters: {} },
    }))
    const answer = await client.chat.completions
      .stream({ model, messages: [...messages], tools })
      .finalChatCompletion()
    const message = answer.choices[0]?.message
    assert.equal(message?.content, 'Let me look.')
    assert.deepEqual(
      message?.tool_calls?.map(each => each.type === 'function' && [each.id, each.function.name]),
      [
        ['aaaaaaaaa', 'look'],
        ['bbbbbbbbb', 'find'],
      ],
    )
  })

  it('ends with the error that it reports in its own format', async () => {
    const error = { object: 'error', message: 'the machine is on fire', type: 'service_error', code: null }
    const { model, id, key } = await open(`${chunk({ content: 'Good' })}data: ${JSON.stringify(error)}\n\n`)
    const { text } = await relay.chat(key, { model, messages, stream: true })
    const last = JSON.parse(text.trim().split('data: ').at(-1) ?? '')
    assert.match(last.error.message, /the machine is on fire/)
    assert.doesNotMatch(text, /\[DONE\]|"object":"error"/)
    assert.ok((await relay.rowOf(id)).cost > 0)
  })

  it('restores tool names that Mistral would reject, and legacy function calls', async () => {
    const { model, key } = await open('')
    const name = 'look.at/this'
    const body = { model, stream: true, messages, tools: [{ type: 'function', function: { name } }] }
    await relay.chat(key, body)
    const { tools } = provider.last().body as { tools: { function: { name: string } }[] }
    const sentName = tools[0]?.function.name ?? ''
    assert.match(sentName, /^[\w-]+$/)
    provider.answers({ stream: ended({ tool_calls: [call('aaaaaaaaa', sentName)] }, 'tool_calls') + DONE })
    assert.match((await relay.chat(key, body)).text, /"name":"look\.at\/this"/)
    provider.answers({ stream: ended({ tool_calls: [call('aaaaaaaaa', 'look')] }, 'tool_calls') + DONE })
    const first = await relay.chat(key, { model, stream: true, messages, functions: [{ name: 'look' }] })
    assert.match(first.text, /"function_call":\{"name":"look"/)
  })
})
