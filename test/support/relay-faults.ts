import assert from 'node:assert/strict'
import { countTokens } from '../../simulator/tokens.ts'
import type { Reply } from './gateway.ts'
import { INPUT_NANOS, OUTPUT_NANOS, PROVIDER_KEY, type Relay } from './relay.ts'

// What suites about providers that fail share: one question, and claims about its response.

const PROMPT = 'How are you today?'
export const PROMPT_TOKENS = countTokens(PROMPT)
export const ask = (model: string, more: Readonly<Record<string, unknown>> = {}) => ({
  model,
  messages: [{ role: 'user', content: PROMPT }],
  ...more,
})
export const STREAM = { stream: true }
export const timeouts = (limits: Readonly<Record<string, number>>) => ({ setting: { timeouts: limits } })
export const priceOf = (prompt: number, completion: number) =>
  prompt * INPUT_NANOS + completion * OUTPUT_NANOS

/** The data of every event. */
export const eventsOf = ({ text }: Pick<Reply, 'text'>) =>
  text
    .split('\n')
    .filter(line => line.startsWith('data: '))
    .map(line => line.slice('data: '.length))

export const textOf = (reply: Pick<Reply, 'text'>) =>
  eventsOf(reply)
    .filter(event => event.startsWith('{'))
    .map(event => {
      try {
        return JSON.parse(event).choices?.[0]?.delta?.content ?? ''
      } catch {
        return ''
      }
    })
    .join('')

export function refusedWith(reply: Reply, status: number, code: string | null): void {
  assert.equal(reply.status, status, reply.text)
  assert.equal(reply.body.error.code, code)
  assert.match(reply.headers.get('x-request-id') ?? '', /^req_/)
  assert.ok(!reply.text.includes(PROVIDER_KEY))
}

/** A stream that breaks off ends with an error event, and no end marker follows. */
export function brokenWith(reply: Reply, code: string): void {
  assert.equal(reply.status, 200, reply.text)
  const events = eventsOf(reply)
  assert.ok(!events.includes('[DONE]'), reply.text)
  assert.equal(JSON.parse(events.at(-1) ?? '{}').error?.code, code, reply.text)
}

/** Sends the question with its own token to a model with these simulated responses. */
export const createQuestion =
  (relay: Relay) =>
  async (
    sentModels: string | readonly string[],
    more: object = {},
    fields: Parameters<Relay['serve']>[1] = {},
  ) => {
    const served = await relay.serve(sentModels, fields)
    const token = await relay.newToken()
    return { ...served, token, reply: await relay.chat(token.key, ask(served.model, { ...more })) }
  }
