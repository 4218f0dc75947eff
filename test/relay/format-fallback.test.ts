import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openai } from '../../src/providers/vendors/openai.ts'
import { vllm } from '../../src/providers/vendors/vllm.ts'
import type { RelayChannel } from '../../src/relay/catalog/catalog.ts'
import type { Work } from '../../src/relay/operations/operation.ts'
import { chatFormat } from '../../src/relay/operations/translate.ts'
import { statusFailure } from '../../src/relay/upstream/failure.ts'
import {
  createFormatMemory,
  type FormatRequest,
  lacksFormat,
  nextAttempt,
} from '../../src/relay/upstream/format-fallback.ts'

const channelOf = (provider: RelayChannel['provider'], override: object = { members: {} }) =>
  ({ id: 1, provider, override, statusMapping: new Map() }) as unknown as RelayChannel

const NOT_FOUND = '{"detail":"Not Found"}'

const requestIn = (format: string, work: Partial<Work> = {}) =>
  ({
    spec: { operation: 'chat', format: 'openai-chat', formatFor: chatFormat(format) },
    work,
    sentModel: 'm',
  }) as unknown as FormatRequest

const failureOf = (channel: RelayChannel, status: number, body: string) =>
  statusFailure(
    channel,
    { kind: 'buffered', status, headers: {}, body: Buffer.from(body) },
    { nowMs: 0, format: 'openai-chat' },
  )

/** The formats in which the gateway calls a channel that always responds with the same error. */
function formatsAsked(channel: RelayChannel, format: string, body = NOT_FOUND): readonly string[] {
  const request = requestIn(format)
  const formats: string[] = []
  for (let next: RelayChannel | undefined = channel; next !== undefined; ) {
    formats.push(request.spec.formatFor?.(next.provider, 'm') ?? '')
    next = nextAttempt(next, failureOf(next, 404, body), request)
  }
  return formats
}

describe('a server that does not support a format', () => {
  it('is called in the next format of its provider', () => {
    assert.deepEqual(formatsAsked(channelOf(openai), 'responses'), ['responses', 'openai-chat'])
  })

  it('is called in each of its formats once', () => {
    const formats = formatsAsked(channelOf(vllm), 'anthropic')
    assert.equal(formats[0], 'anthropic')
    assert.deepEqual(formats.toSorted(), Object.keys(vllm.chat).toSorted())
  })

  it('is not inferred from a missing model', () => {
    const message = 'the model does not exist'
    assert.deepEqual(formatsAsked(channelOf(openai), 'responses', message), ['responses'])
    assert.equal(lacksFormat(failureOf(channelOf(openai), 404, message)), false)
  })

  it('may be inferred from an error that names the path of the model', () => {
    const message = 'This model is only supported in v1/responses and not in v1/chat/completions.'
    assert.deepEqual(formatsAsked(channelOf(openai), 'openai-chat', message), ['openai-chat', 'responses'])
  })
})

describe('a server that rejects stream_options', () => {
  const REFUSAL = '{"error":{"message":"unknown field stream_options"}}'
  const channel = channelOf(openai)

  it('is retried once without them if the gateway added them', () => {
    const request = requestIn('openai-chat', { isStream: true })
    const next = nextAttempt(channel, failureOf(channel, 400, REFUSAL), request)
    assert.deepEqual(next?.override.members, { stream_options: undefined })
    assert.equal(next && nextAttempt(next, failureOf(next, 400, REFUSAL), request), undefined)
  })

  it('is not retried if the client sent them', () => {
    const request = requestIn('openai-chat', { isStream: true, hasStreamOptions: true })
    assert.equal(nextAttempt(channel, failureOf(channel, 400, REFUSAL), request), undefined)
  })
})

describe('a variant of the request that worked for a channel', () => {
  it('is reused for ten minutes, for the same kind of request only', () => {
    let nowMs = 0
    const memory = createFormatMemory(() => nowMs)
    const [channel, variant] = [channelOf(openai), channelOf(openai)]
    const request = requestIn('responses')
    memory.remember(channel, request, variant)
    assert.equal(memory.recall(channel, request), variant)
    assert.equal(memory.recall(channel, { ...request, sentModel: 'other' }), channel)
    nowMs = 600_000
    assert.equal(memory.recall(channel, request), channel)
  })

  it('is discarded if it fails, and when the channel is changed', () => {
    const memory = createFormatMemory(() => 0)
    const [channel, variant] = [channelOf(openai), channelOf(openai)]
    const request = requestIn('responses')
    memory.remember(channel, request, variant)
    assert.equal(memory.recall({ ...channel }, request).provider, openai)
    assert.notEqual(memory.recall({ ...channel }, request), variant)
    memory.forget(channel, request)
    assert.equal(memory.recall(channel, request), channel)
  })
})
