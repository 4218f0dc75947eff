import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openai } from '../../src/providers/vendors/openai.ts'
import { vllm } from '../../src/providers/vendors/vllm.ts'
import type { RelayChannel } from '../../src/relay/catalog/catalog.ts'
import type { Work } from '../../src/relay/operations/operation.ts'
import { chatFormat } from '../../src/relay/operations/translate.ts'
import { type AttemptFailure, statusFailure } from '../../src/relay/upstream/failure.ts'
import { createFormatFallback } from '../../src/relay/upstream/format-fallback.ts'
import type { PlanStep } from '../../src/routing/plan.ts'

const channelOf = (provider: RelayChannel['provider']) =>
  ({ id: 1, provider, statusMapping: new Map() }) as unknown as RelayChannel

const NOTHING = '{"detail":"Not Found"}'

/** A client of Responses before one server, of which `lacks` says what it has no path for. */
function openDesk(channel: RelayChannel, client: string) {
  const spoken = createFormatFallback()
  const formatFor = chatFormat(client)
  const spec = { operation: 'chat', format: 'openai-chat', formatFor } as const
  const work = {} as Work
  let nowMs = 0

  /** The formats that it was asked in, until it answered, and what is left to tell where it did not. */
  function ask(lacks: readonly string[], body = NOTHING) {
    const failures: AttemptFailure[] = []
    const asked: string[] = []
    const steps = [{ channel, sentModel: 'm' } as PlanStep<RelayChannel>]
    for (const step of spoken.walk({ steps, asked: { spec, work } as never, failures, nowMs: () => nowMs })) {
      const format = formatFor(step.channel.provider, 'm') ?? ''
      asked.push(format)
      if (!lacks.includes(format)) break
      const answer = {
        kind: 'whole',
        status: 404,
        headers: {},
        body: Buffer.from(`${body} ${format}`),
      } as const
      failures.push(statusFailure(step.channel, answer, { nowMs, format }))
    }
    return { asked, told: failures.map(({ answer }) => answer?.body.toString()) }
  }
  return {
    ask,
    later: (ms: number) => {
      nowMs += ms
    },
  }
}

describe('a server that lacks a format', () => {
  it('is asked in the next, which counts for ten minutes', () => {
    const { ask, later } = openDesk(channelOf(openai), 'responses')
    assert.deepEqual(ask(['responses']).asked, ['responses', 'openai-chat'])
    assert.deepEqual(ask(['responses']).asked, ['openai-chat'])
    later(600_001)
    assert.deepEqual(ask([]).asked, ['responses'])
  })

  it('is asked in all it may speak, and tells what it said first where it speaks none of them', () => {
    const { ask } = openDesk(channelOf(vllm), 'anthropic')
    const formats = Object.keys(vllm.chat)
    const { asked, told } = ask(formats)
    assert.equal(asked[0], 'anthropic')
    assert.deepEqual(asked.toSorted(), formats.toSorted())
    assert.deepEqual(told, [`${NOTHING} anthropic`])
    // Nothing was learned of it.
    assert.deepEqual(ask([]).asked, ['anthropic'])
  })

  it('is not one that lacks a model', () => {
    const { ask } = openDesk(channelOf(openai), 'responses')
    assert.deepEqual(ask(['responses'], 'the model does not exist').asked, ['responses'])
  })

  it('is told from one whose model is asked elsewhere, which it names', () => {
    const { ask } = openDesk(channelOf(openai), 'openai-chat')
    const words = 'This model is only supported in v1/responses and not in v1/chat/completions.'
    assert.deepEqual(ask(['openai-chat'], words).asked, ['openai-chat', 'responses'])
  })
})
