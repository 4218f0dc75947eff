import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { anthropic } from '../../src/chat/anthropic/messages/format.ts'
import { gemini } from '../../src/chat/gemini/format.ts'
import type { IdsAndClock, Outbound } from '../../src/chat/hub/format.ts'
import { openaiChat } from '../../src/chat/openai/chat-completions/format.ts'
import { responses } from '../../src/chat/openai/responses/format.ts'
import { allCounts, EMPTY, totalInput, totalOutput, type Usage } from '../../src/domain/usage.ts'
import type { UsageOptions } from '../../src/metering/openai-usage.ts'
import { transcriptsOf } from '../support/format-recordings.ts'
import { answerOf } from '../support/gathered-answer.ts'
import { law } from '../support/laws.ts'

const idsAndClock: IdsAndClock = { newId: prefix => `${prefix}1`, nowS: () => 0 }

function streamed(format: Outbound, bytes: Buffer, usage: UsageOptions = {}): Usage | undefined {
  const decoder = format.createStreamDecoder({ idsAndClock, usage })
  const gathered = answerOf([...decoder.push(bytes), ...decoder.end()])
  return 'answer' in gathered ? gathered.answer.usage : undefined
}

function streamOf(name: string): Buffer {
  const transcript = transcriptsOf('anthropic').streams.find(each => each.name === name)
  assert.ok(transcript, name)
  return transcript.value
}

const sse = (...chunks: readonly unknown[]) =>
  Buffer.from(chunks.map(chunk => `data: ${JSON.stringify(chunk)}\n\n`).join(''))

/** How vendors report usage (docs/reference/formats.md: Usage fields). */
describe('usage of chat completions', () => {
  const read = (usage: unknown, options: UsageOptions = {}) => openaiChat.readUsage({ usage }, options)

  it('counts cached and cache-written tokens inside the prompt', () => {
    const usage = read({
      prompt_tokens: 100,
      completion_tokens: 10,
      prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 30 },
    })
    assert.deepEqual(usage, { ...EMPTY, input: 10, cachedInput: 60, cacheWrite: 30, output: 10, calls: 1 })
  })

  it('counts reasoning inside the completion', () => {
    const usage = read({
      prompt_tokens: 1,
      completion_tokens: 10,
      completion_tokens_details: { reasoning_tokens: 8 },
    })
    assert.equal(usage?.reasoning, 8)
    assert.equal(usage?.output, 2)
  })

  it('counts reasoning beside the completion if a vendor reports it separately', () => {
    const reportedUsage = {
      prompt_tokens: 12,
      completion_tokens: 1,
      total_tokens: 241,
      completion_tokens_details: { reasoning_tokens: 228 },
    }
    const usage = read(reportedUsage, { reasoningOutside: true })
    assert.equal(usage && totalOutput(usage), 229)
  })

  it('counts reasoning beside the completion if a host’s total is the sum of all three, as for Grok behind another gateway', () => {
    const reportOf = (total_tokens: number) => ({
      prompt_tokens: 10_120,
      completion_tokens: 1_499,
      total_tokens,
      completion_tokens_details: { reasoning_tokens: 2_809 },
    })
    const outputOf = (total: number) => {
      const usage = read(reportOf(total))
      return usage && { output: usage.output, reasoning: usage.reasoning }
    }
    assert.deepEqual(outputOf(10_120 + 1_499 + 2_809), { output: 1_499, reasoning: 2_809 })
    assert.deepEqual(outputOf(10_120 + 1_499), { output: 0, reasoning: 1_499 })
    assert.deepEqual(outputOf(20_000), { output: 0, reasoning: 1_499 })
  })

  it('does not add up usage that a stream repeats with every chunk', () => {
    const chunk = (completion_tokens: number, finish_reason: string | null) => ({
      id: 'a',
      choices: [{ index: 0, delta: { content: 'x' }, finish_reason }],
      usage: { prompt_tokens: 5, completion_tokens },
    })
    const usage = streamed(openaiChat, sse(chunk(1, null), chunk(2, null), chunk(3, 'stop')))
    assert.deepEqual(usage, { ...EMPTY, input: 5, output: 3, calls: 1 })
  })

  it('reads usage after the last text, in its own chunk or in the vendor’s own field', () => {
    const words = { id: 'a', choices: [{ index: 0, delta: { content: 'x' }, finish_reason: 'stop' }] }
    const usage = { prompt_tokens: 5, completion_tokens: 2 }
    const expected = { ...EMPTY, input: 5, output: 2, calls: 1 }
    assert.deepEqual(streamed(openaiChat, sse(words, { id: 'a', choices: [], usage })), expected)
    assert.deepEqual(streamed(openaiChat, sse({ ...words, x_groq: { usage } })), expected)
  })

  it('keeps usage that is reported together with an error', () => {
    const decoder = openaiChat.createStreamDecoder({ idsAndClock })
    const chunk = {
      error: { message: 'Too long', code: 400 },
      usage: { prompt_tokens: 43, completion_tokens: 10 },
    }
    const events = decoder.push(sse(chunk))
    assert.deepEqual(
      events.map(event => event.type),
      ['usage', 'error'],
    )
  })
})

describe('usage of messages', () => {
  const read = (usage: unknown) => anthropic.readUsage({ usage })

  it('counts cached and cache-written tokens beside the input', () => {
    const usage = read({
      input_tokens: 10,
      cache_read_input_tokens: 60,
      cache_creation_input_tokens: 30,
      output_tokens: 5,
    })
    assert.deepEqual(usage, { ...EMPTY, input: 10, cachedInput: 60, cacheWrite: 30, output: 5, calls: 1 })
    assert.equal(usage && totalInput(usage), 100)
  })

  it('distinguishes cache writes for an hour from those for minutes', () => {
    const usage = read({
      input_tokens: 1,
      output_tokens: 1,
      cache_creation_input_tokens: 30,
      cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
    })
    assert.equal(usage?.cacheWrite, 10)
    assert.equal(usage?.cacheWrite1h, 20)
  })

  it('counts thinking inside the output', () => {
    const usage = read({ input_tokens: 1, output_tokens: 10, output_tokens_details: { thinking_tokens: 8 } })
    assert.deepEqual([usage?.output, usage?.reasoning], [2, 8])
  })

  it('counts searches that the vendor ran', () => {
    const usage = read({ input_tokens: 1, output_tokens: 1, server_tool_use: { web_search_requests: 2 } })
    assert.equal(usage?.searches, 2)
  })

  it('counts the summary of a long conversation, which the vendor bills beside the response', () => {
    const usage = read({
      input_tokens: 682,
      output_tokens: 1_320,
      iterations: [
        { type: 'compaction', input_tokens: 60_385, output_tokens: 592, cache_read_input_tokens: 0 },
        { type: 'message', input_tokens: 682, output_tokens: 1_320 },
      ],
    })
    assert.ok(usage)
    assert.deepEqual([usage.input, usage.output], [682, 1_320])
    assert.deepEqual(usage.inferences, [{ counts: { ...EMPTY, input: 60_385, output: 592 } }])
    const all = allCounts(usage)
    assert.deepEqual([totalInput(all), totalOutput(all)], [61_067, 1_912])
    assert.equal(all.calls, 1)
  })

  it('counts the advice of another model under its name, and every iteration of the response', () => {
    const usage = read({
      input_tokens: 412,
      output_tokens: 531,
      server_tool_use: { web_search_requests: 1 },
      iterations: [
        { type: 'message', input_tokens: 412, output_tokens: 89 },
        { type: 'advisor_message', model: 'claude-opus-4-8', input_tokens: 823, output_tokens: 1_612 },
        { type: 'message', input_tokens: 1_348, output_tokens: 442, cache_read_input_tokens: 412 },
      ],
    })
    assert.deepEqual(usage, {
      ...EMPTY,
      input: 412,
      output: 89,
      searches: 1,
      calls: 1,
      inferences: [
        { counts: { ...EMPTY, input: 823, output: 1_612 }, model: 'claude-opus-4-8' },
        { counts: { ...EMPTY, input: 1_348, cachedInput: 412, output: 442 } },
      ],
    })
  })

  it('ignores a list of iterations whose sum is less than the counts beside it', () => {
    const reportedUsage = { input_tokens: 900, output_tokens: 100 }
    for (const iterations of [
      [],
      [{ type: 'message', input_tokens: 9, output_tokens: 1 }],
      [{ type: 'message', input_tokens: 900, output_tokens: 100 }],
      [{ type: 'message' }, null, 'message'],
    ])
      assert.deepEqual(read({ ...reportedUsage, iterations }), {
        ...EMPTY,
        input: 900,
        output: 100,
        calls: 1,
      })
  })

  it('counts a model that responded in place of the requested one', () => {
    assert.deepEqual(streamed(anthropic, streamOf('corpus/anthropic/fallback-stream'))?.inferences, [
      { counts: { ...EMPTY, input: 340, output: 21 }, model: 'claude-opus-4-8' },
    ])
  })

  it('is unknown if a count is impossible', () => {
    for (const input_tokens of [-1, 0.5, '7', null]) {
      assert.equal(read({ input_tokens, output_tokens: 1 }), undefined)
    }
  })

  it('uses the last input count of a stream', () => {
    const usage = streamed(anthropic, streamOf('corpus/anthropic/restated-input-stream'))
    assert.deepEqual(usage, { ...EMPTY, input: 73, output: 4, calls: 1 })
  })

  it('uses the first input count if it is not repeated', () => {
    const usage = streamed(
      anthropic,
      sse(
        {
          type: 'message_start',
          message: { id: 'm', usage: { input_tokens: 9, output_tokens: 1, cache_read_input_tokens: 4 } },
        },
        {
          type: 'message_delta',
          delta: { stop_reason: 'end_turn' },
          usage: { output_tokens: 7, input_tokens: null },
        },
        { type: 'message_stop' },
      ),
    )
    assert.deepEqual(usage, { ...EMPTY, input: 9, cachedInput: 4, output: 7, calls: 1 })
  })

  it('uses the first input count if a host ends the stream with zeros for it, and no cached tokens instead', () => {
    const usageAfter = (usage: object) =>
      streamed(
        anthropic,
        sse(
          {
            type: 'message_start',
            message: { id: 'm', usage: { input_tokens: 9, output_tokens: 1, cache_read_input_tokens: 4 } },
          },
          { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage },
          { type: 'message_stop' },
        ),
      )
    assert.deepEqual(
      usageAfter({
        input_tokens: 0,
        cache_read_input_tokens: 0,
        cache_creation_input_tokens: 0,
        output_tokens: 7,
      }),
      { ...EMPTY, input: 9, cachedInput: 4, output: 7, calls: 1 },
    )
    assert.deepEqual(usageAfter({ input_tokens: 0, cache_read_input_tokens: 13, output_tokens: 7 }), {
      ...EMPTY,
      cachedInput: 13,
      output: 7,
      calls: 1,
    })
  })

  it('leaves the cached tokens out of the input when reported to a client', () => {
    const answer = {
      id: 'a',
      model: 'm',
      choices: [],
      usage: { ...EMPTY, input: 10, cachedInput: 60, cacheWrite1h: 5, output: 3 },
    }
    const { usage } = anthropic.encodeAnswer(answer, { idsAndClock }) as { usage: Record<string, unknown> }
    assert.equal(usage.input_tokens, 10)
    assert.equal(usage.cache_read_input_tokens, 60)
    assert.equal(usage.cache_creation_input_tokens, 5)
  })
})

describe('usage of responses', () => {
  const eventsOf = (...events: readonly unknown[]) =>
    responses.createStreamDecoder({ idsAndClock }).push(sse(...events))
  const begin = { type: 'response.created', response: { id: 'r', status: 'in_progress', output: [] } }

  it('is kept if it is reported together with an error', () => {
    for (const status of ['failed', 'cancelled']) {
      const usage = { input_tokens: 10, output_tokens: 300, total_tokens: 310 }
      const response = { id: 'r', status, error: { code: 'server_error', message: 'x' }, usage }
      const events = eventsOf(begin, { type: `response.${status}`, response })
      assert.deepEqual(
        events.map(({ type }) => type),
        ['start', 'usage', 'error'],
      )
      const [, reported] = events
      assert.ok(reported?.type === 'usage')
      assert.deepEqual(reported.usage, { ...EMPTY, input: 10, output: 300, calls: 1 })
    }
  })

  it('contains an image of which only a part was delivered, once', () => {
    const part = { type: 'response.image_generation_call.partial_image', output_index: 0 }
    const done = {
      type: 'response.output_item.done',
      output_index: 0,
      item: { type: 'image_generation_call', id: 'ig', status: 'completed', result: 'aGk=' },
    }
    const callsAfter = (...events: readonly unknown[]) =>
      eventsOf(begin, ...events)
        .flatMap(event => (event.type === 'providerTools' ? [event.calls.imageGenerationCalls] : []))
        .at(-1)
    assert.equal(callsAfter(part), 1)
    assert.equal(callsAfter(part, part, done), 1)
    assert.equal(callsAfter(done), 1)
    assert.equal(callsAfter(part, done, { ...done, output_index: 1 }, { ...part, output_index: 2 }), 3)
  })
})

describe('usage of generateContent', () => {
  const read = (usageMetadata: unknown, rest: object = {}) => gemini.readUsage({ usageMetadata, ...rest })

  it('counts cached tokens inside the prompt and reasoning beside the candidates', () => {
    const usage = read({
      promptTokenCount: 100,
      cachedContentTokenCount: 60,
      candidatesTokenCount: 10,
      thoughtsTokenCount: 30,
      totalTokenCount: 140,
    })
    assert.deepEqual(usage, { ...EMPTY, input: 40, cachedInput: 60, output: 10, reasoning: 30, calls: 1 })
  })

  it('counts the results of the vendor’s tools as input, beside the prompt', () => {
    const reportedUsage = { promptTokenCount: 10, toolUsePromptTokenCount: 73, candidatesTokenCount: 30 }
    const usage = read({ ...reportedUsage, thoughtsTokenCount: 109, totalTokenCount: 222 })
    assert.deepEqual([usage && totalInput(usage), usage && totalOutput(usage)], [83, 139])
  })

  it('derives a missing count from the total', () => {
    const silent = read({ promptTokenCount: 15, thoughtsTokenCount: 2, totalTokenCount: 17 })
    assert.deepEqual([silent?.output, silent?.reasoning], [0, 2])
    const thoughtless = read({ promptTokenCount: 15, candidatesTokenCount: 5, totalTokenCount: 50 })
    assert.deepEqual([thoughtless?.output, thoughtless?.reasoning], [5, 30])
  })

  it('distinguishes audio and images from text, and the cached part of each', () => {
    const usage = read({
      promptTokenCount: 100,
      cachedContentTokenCount: 50,
      promptTokensDetails: [
        { modality: 'TEXT', tokenCount: 20 },
        { modality: 'AUDIO', tokenCount: 60 },
        { modality: 'IMAGE', tokenCount: 20 },
      ],
      cacheTokensDetails: [{ modality: 'AUDIO', tokenCount: 50 }],
      candidatesTokenCount: 1_300,
      candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: 1_290 }],
    })
    const input = { input: 20, cachedInput: 50, audioInput: 10, imageInput: 20 }
    assert.deepEqual(usage, { ...EMPTY, ...input, output: 10, imageOutput: 1_290, calls: 1 })
  })

  it('counts searches as they are billed: once per response, or each with newer models', () => {
    const candidates = [{ groundingMetadata: { webSearchQueries: ['a', 'b'] } }]
    const reportedUsage = { promptTokenCount: 1, candidatesTokenCount: 1 }
    assert.equal(read(reportedUsage, { candidates, modelVersion: 'gemini-2.5-flash' })?.searches, 1)
    assert.equal(read(reportedUsage, { candidates, modelVersion: 'gemini-3-pro-preview' })?.searches, 2)
  })

  it('does not add up usage that a stream repeats with every event', () => {
    const piece = (candidatesTokenCount: number, finishReason?: string) => ({
      candidates: [{ content: { parts: [{ text: 'x' }] }, finishReason }],
      usageMetadata: { promptTokenCount: 5, candidatesTokenCount },
    })
    const usage = streamed(gemini, sse(piece(1), piece(2), piece(3, 'STOP')))
    assert.deepEqual(usage, { ...EMPTY, input: 5, output: 3, calls: 1 })
  })

  it('is unknown if the prompt is not reported', () => {
    assert.equal(read({ trafficType: 'ON_DEMAND' }), undefined)
    assert.equal(read({ promptTokenCount: -1 }), undefined)
  })
})

describe('usage in every stream', () => {
  for (const format of [openaiChat, anthropic, gemini]) {
    for (const { name, value } of transcriptsOf(format.name).streams) {
      law(`of ${name} adds up`, { transcript: name }, () => {
        const usage = streamed(format, value)
        if (usage === undefined) return
        const { vendorCost: _cost, inferences: _further, ...counts } = usage
        for (const count of Object.values(counts)) assert.ok(Number.isSafeInteger(count) && count >= 0)
        assert.ok(totalInput(usage) >= usage.cachedInput + usage.cacheWrite)
        assert.ok(totalOutput(usage) >= usage.reasoning)
      })
    }
  }
})
