import assert from 'node:assert/strict'
import { describe } from 'node:test'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import type { IdsAndClock } from '../../src/chat/hub/format.ts'
import { hasCustomCall, LAWFUL, understood } from '../support/format-laws.ts'
import { transcriptsOf } from '../support/format-recordings.ts'
import { answerOf } from '../support/gathered-answer.ts'
import { law } from '../support/laws.ts'

/** The law tests use the vendors' own SDKs; this one parses streams with its own strict schemas. */

const idsAndClock: IdsAndClock = { newId: prefix => `${prefix}1`, nowS: () => 1_700_000_000 }

type Reader = (fetch: () => Promise<Response>) => {
  doStream(options: never): PromiseLike<{ stream: ReadableStream }>
}

const READERS: Readonly<Record<string, Reader>> = {
  'openai-chat': fetch => createOpenAI({ apiKey: 'x', fetch }).chat('gpt-4o'),
  responses: fetch => createOpenAI({ apiKey: 'x', fetch }).responses('gpt-5'),
  anthropic: fetch => createAnthropic({ apiKey: 'x', fetch })('claude-sonnet-4-5'),
  gemini: fetch => createGoogleGenerativeAI({ apiKey: 'x', fetch })('gemini-2.5-flash'),
}

type StreamPart = {
  type: string
  delta?: string
  toolName?: string
  input?: string
  providerExecuted?: boolean
  error?: unknown
}

async function read(format: string, bytes: Buffer) {
  const reader = READERS[format]
  assert.ok(reader)
  const fetch = async () => new Response(bytes as never, { headers: { 'content-type': 'text/event-stream' } })
  const prompt = [{ role: 'user', content: [{ type: 'text', text: 'x' }] }]
  const parts: StreamPart[] = []
  try {
    const { stream } = await reader(fetch).doStream({ prompt } as never)
    for await (const part of stream as unknown as AsyncIterable<StreamPart>) parts.push(part)
  } catch (error) {
    // An error before any text is thrown, a later one is a part.
    parts.push({ type: 'error', error })
  }
  return {
    text: parts.map(part => (part.type === 'text-delta' ? part.delta : '')).join(''),
    calls: parts.filter(part => part.type === 'tool-call' && !part.providerExecuted),
    errors: parts.filter(part => part.type === 'error'),
    isFinished: parts.at(-1)?.type === 'finish',
  }
}

/** A custom tool's call has its free text as the input. */
const inputOf = (input: unknown) => (typeof input === 'string' ? { input } : input)

for (const { client } of LAWFUL) {
  if (client === undefined || READERS[client.format.name] === undefined) continue
  const { format } = client
  for (const upstream of LAWFUL) {
    const pair = `${format.name} before ${upstream.format.name}`
    const title = `the AI SDK as a client of ${pair}`
    describe(title, () => {
      for (const { name, value } of transcriptsOf(upstream.transcripts).streams) {
        law(`accepts ${name}`, { transcript: name, pair }, async () => {
          const decoder = upstream.format.createStreamDecoder({ idsAndClock })
          const encoder = format.createStreamEncoder({ idsAndClock })
          // It supports one choice only.
          const events = [...decoder.push(value), ...decoder.end()].filter(
            event => !('choice' in event) || event.choice === 0,
          )
          const bytes = Buffer.concat([...events.flatMap(event => encoder.push(event)), ...encoder.end()])
          const sdkAnswer = await read(format.name, bytes)
          const gathered = answerOf(events)
          if ('error' in gathered) {
            assert.ok(sdkAnswer.errors.length > 0, 'an error is told')
            return
          }
          if (client.refusesCustomCalls && hasCustomCall(gathered.answer)) {
            assert.ok(sdkAnswer.errors.length > 0, 'the SDK has learned custom calls: delete this exception')
            return
          }
          assert.deepEqual(sdkAnswer.errors, [])
          assert.ok(sdkAnswer.isFinished)
          const { text, calls } = understood(gathered.answer, client)
          assert.equal(sdkAnswer.text.replace(/!\[image\]\(.*\)/, ''), text)
          assert.deepEqual(
            sdkAnswer.calls.map(call => ({
              name: call.toolName,
              input: inputOf(JSON.parse(call.input || '{}')),
            })),
            calls,
          )
        })
      }
    })
  }
}
