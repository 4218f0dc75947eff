import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { totalInput, totalOutput, type Usage } from '../../src/domain/usage.ts'
import { readOpenAiUsage, type UsageOptions } from '../../src/metering/openai-usage.ts'
import { createStreamMeter, type StreamMeterOptions } from '../../src/metering/stream-meter.ts'
import { meterWhole } from '../../src/metering/whole-meter.ts'
import { law } from '../support/laws.ts'
import { fc } from '../support/properties.ts'
import { chatStreams, wholeAnswers } from '../support/recordings.ts'

const CHUNK_SIZES = [1, 7, 64, 4_096, Number.POSITIVE_INFINITY]

function cut(bytes: Buffer, size: number): readonly Buffer[] {
  if (size >= bytes.length) return [bytes]
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
    bytes.subarray(index * size, (index + 1) * size),
  )
}

/** A complete stream: what is forwarded immediately, what is held back, what was read. */
function meter(bytes: Buffer, options: StreamMeterOptions, size = Number.POSITIVE_INFINITY) {
  const meter = createStreamMeter(options)
  const pieces = cut(bytes, size).flatMap(chunk => meter.push(chunk))
  const sentText = Buffer.concat([...pieces, ...meter.end()]).toString()
  const heldText = Buffer.concat(meter.closing()).toString()
  return { sent: sentText, held: heldText, reading: { ...meter.reading }, ending: meter.ending() }
}

const ASKED = { includeUsage: true }
const NOT_ASKED = { includeUsage: false }

type Json = { readonly [name: string]: Json } & readonly Json[] & (string | number | null | undefined)

const frame = (data: unknown) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
const content = (text: string) => ({ choices: [{ index: 0, delta: { content: text }, finish_reason: null }] })
const FINISH = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: null }
const USAGE = { choices: [], usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 } }
const DONE = '[DONE]'
const stream = (...events: readonly unknown[]) => Buffer.from(events.map(frame).join(''))

describe('a metered stream', () => {
  it('forwards every byte, and holds back [DONE] until after the settlement', () => {
    const bytes = stream(content('Hel'), content('lo'), FINISH, USAGE, DONE)
    const { sent: sentText, held: heldText, ending } = meter(bytes, ASKED)
    assert.equal(sentText + heldText, bytes.toString())
    assert.equal(heldText, frame(DONE))
    assert.equal(ending, 'complete')
  })

  it('removes the chunk that contains only usage if the client did not request it', () => {
    const {
      sent: sentText,
      held: heldText,
      reading,
    } = meter(stream(content('Hi'), FINISH, USAGE, DONE), NOT_ASKED)
    assert.equal(sentText + heldText, frame(content('Hi')) + frame(FINISH) + frame(DONE))
    assert.deepEqual(reading.usage, readOpenAiUsage(USAGE.usage))
  })

  it('removes only that chunk, and forwards what follows', () => {
    const bytes = Buffer.concat([
      stream(content('Hi'), USAGE),
      Buffer.from(': note\n'),
      stream(content('!'), DONE),
    ])
    for (const size of CHUNK_SIZES) {
      const { sent: sentText, held: heldText } = meter(bytes, NOT_ASKED, size)
      assert.equal(sentText + heldText, bytes.toString().replace(frame(USAGE), ''))
    }
  })

  it('keeps a chunk without choices and without usage, and usage beside a choice', () => {
    const filter = { choices: [], prompt_filter_results: [{ prompt_index: 0 }], usage: null }
    const last = { ...FINISH, usage: USAGE.usage }
    const bytes = stream(filter, content('Hi'), last, DONE)
    const { sent: sentText, held: heldText } = meter(bytes, NOT_ASKED)
    assert.equal(sentText + heldText, bytes.toString())
  })

  it('keeps its usage if a report of zeros follows, and takes a smaller report that is not zero', () => {
    const report = (input: number, output: number) => ({
      choices: [],
      usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
    })
    const totals = (...reports: readonly object[]) => {
      const { usage } = meter(stream(content('Hi'), FINISH, ...reports, DONE), ASKED).reading
      return usage && [totalInput(usage), totalOutput(usage)]
    }
    assert.deepEqual(totals(report(100, 50), report(0, 0)), [100, 50])
    assert.deepEqual(totals(report(100, 50), report(0, 5)), [0, 5])
    assert.deepEqual(totals(report(0, 0), report(100, 50)), [100, 50])
    assert.deepEqual(totals(report(0, 0)), [0, 0])
  })

  it('uses the last usage and never adds them up', () => {
    const usageChunks = [1, 2, 3].map(tokens => ({
      ...content('x'),
      usage: { prompt_tokens: 4, completion_tokens: tokens },
    }))
    const { reading } = meter(stream(...usageChunks, FINISH, USAGE, USAGE, DONE), NOT_ASKED)
    assert.equal(totalInput(reading.usage as Usage), 5)
    assert.equal(totalOutput(reading.usage as Usage), 2)
  })

  it('keeps an earlier usage if a later one is impossible', () => {
    const wrong = { choices: [], usage: { prompt_tokens: -1, completion_tokens: 'x' } }
    const { reading } = meter(stream(content('a'), USAGE, wrong, DONE), NOT_ASKED)
    assert.deepEqual(reading.usage, readOpenAiUsage(USAGE.usage))
  })

  it('reports no usage if there is none, but the input for a token count', () => {
    const { reading } = meter(stream(content('Grüß'), content(' "Gott"\n😀'), FINISH, DONE), NOT_ASKED)
    assert.equal(reading.usage, undefined)
    assert.equal(reading.textBytes, Buffer.byteLength('Grüß "Gott"\n😀'))
    assert.equal(reading.contentEvents, 2)
  })

  it('counts text, reasoning, refusals and tool calls, however the JSON is written', () => {
    const count = (delta: string) => {
      const bytes = stream(`{ "choices" : [ { "delta" : ${delta} , "index" : 0 } ] }`)
      const { textBytes, reasoningBytes, contentEvents } = meter(bytes, ASKED).reading
      return [textBytes, reasoningBytes, contentEvents]
    }
    assert.deepEqual(count('{"role":"assistant","content":""}'), [0, 0, 0])
    assert.deepEqual(count('{"content":null,"refusal":"no"}'), [2, 0, 1])
    assert.deepEqual(count('{"content":"\\u00e9\\ud83d\\ude00\\n\\"\\\\/\\u4f60"}'), [2 + 4 + 4 + 3, 0, 1])
    assert.deepEqual(count('{"reasoning_content":"abc","content":null}'), [0, 3, 1])
    // The same reasoning twice, under two names and with its details.
    const twice = '"reasoning":"abc","reasoning_content":"abc"'
    assert.deepEqual(
      count(`{${twice},"reasoning_details":[{"type":"reasoning.text","text":"abc"}]}`),
      [0, 3, 1],
    )
    assert.deepEqual(
      count('{"content":[{"type":"thinking","thinking":[{"type":"text","text":"ab"}]}]}'),
      [0, 2, 1],
    )
    assert.deepEqual(count('{"content":[{"type":"text","text":"abcd"}]}'), [4, 0, 1])
    const call =
      '{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"{\\"a\\":1}"}}'
    assert.deepEqual(count(`{"tool_calls":[${call}]}`), [1 + 7, 0, 1])
    assert.deepEqual(count('{"audio":{"id":"a","data":"UklGRg==","transcript":"hi"}}'), [2, 0, 1])
    assert.deepEqual(count('{"audio":{"id":"a","data":"UklGRg=="}}'), [0, 0, 1])
  })

  it('counts only the output text: no log probabilities, no repeated message', () => {
    const chunk = {
      content: 'not a word',
      choices: [
        {
          message: { role: 'assistant', content: 'all that was said so far' },
          delta: { content: 'ab' },
          logprobs: { content: [{ token: 'ab', text: 'ab' }] },
        },
      ],
    }
    assert.equal(meter(stream(chunk), ASKED).reading.textBytes, 2)
  })

  it('reads legacy completions, whose choices contain the text directly', () => {
    const chunk = (text: string, finish_reason: string | null) => ({
      choices: [{ text, index: 0, finish_reason }],
    })
    const { reading, ending } = meter(stream(chunk('Hello', null), chunk('!', 'length')), ASKED)
    assert.equal(reading.textBytes, 6)
    assert.equal(ending, 'complete')
  })

  it('is incomplete without a finish reason and without [DONE]', () => {
    assert.equal(meter(stream(content('Hi')), ASKED).ending, 'incomplete')
    assert.equal(meter(Buffer.alloc(0), ASKED).ending, 'incomplete')
    assert.equal(meter(stream(content('Hi'), FINISH), ASKED).ending, 'complete')
    assert.equal(meter(stream(content('Hi'), DONE), ASKED).ending, 'complete')
    const empty = { choices: [{ index: 0, delta: {}, finish_reason: '' }] }
    assert.equal(meter(stream(content('Hi'), empty), ASKED).ending, 'incomplete')
  })

  it('of several choices is complete when each of them has finished', () => {
    const options = { includeUsage: true, choices: 2 }
    assert.equal(meter(stream(content('Hi'), FINISH), options).ending, 'incomplete')
    assert.equal(meter(stream(content('Hi'), FINISH, FINISH), options).ending, 'complete')
    const both = { choices: [FINISH.choices[0], { index: 1, finish_reason: 'length' }] }
    assert.equal(meter(stream(content('Hi'), both), options).ending, 'complete')
  })

  it('recognizes an error inside the stream, and holds back the error and all that follows', () => {
    const errors = [
      frame({ error: { message: 'overloaded', code: 529 } }),
      frame({ choices: [{ delta: { content: '' } }], error: 'overloaded' }),
      'event: error\ndata: {"message":"overloaded"}\n\n',
      'event: error\ndata: overloaded\n\n',
    ]
    for (const error of errors) {
      const rest = `${error}${frame(content('!'))}: note\n\n${frame(DONE)}`
      const bytes = Buffer.from(frame(content('Hi')) + rest)
      const { sent: sentText, held: heldText, reading, ending } = meter(bytes, ASKED)
      assert.equal(ending, 'error')
      assert.equal(sentText, frame(content('Hi')))
      assert.equal(heldText, rest)
      assert.match(JSON.stringify(reading.error), /overloaded/)
    }
  })

  it('ignores an error that is null, or that is not at the top level', () => {
    const calm = {
      error: null,
      choices: [{ delta: { content: 'Hi' }, content_filter_result: { error: { code: 1 } } }],
    }
    assert.equal(meter(stream(calm, FINISH, DONE), ASKED).ending, 'complete')
  })

  it('continues after a malformed event, and forwards it', () => {
    const bytes = stream(content('Hi'), '{"choices":[{"del', 'what?', content('!'), FINISH, USAGE, DONE)
    const { sent: sentText, held: heldText, reading, ending } = meter(bytes, ASKED)
    assert.equal(sentText + heldText, bytes.toString())
    assert.equal(reading.malformed, 2)
    assert.equal(reading.textBytes, 3)
    assert.deepEqual(reading.usage, readOpenAiUsage(USAGE.usage))
    assert.equal(ending, 'complete')
  })

  it('reads several chunks that a host put into one event', () => {
    const lines = [content('Hi'), FINISH, USAGE, DONE]
    const bytes = Buffer.from(`${lines.map(each => frame(each).trimEnd()).join('\n')}\n\n`)
    const { reading } = meter(bytes, NOT_ASKED)
    assert.deepEqual(reading.usage, readOpenAiUsage(USAGE.usage))
    assert.deepEqual([reading.textBytes, reading.finishes, reading.isDone], [2, 1, true])
  })

  it('adds a missing blank line to the last event, and drops a truncated event', () => {
    for (const missing of [1, 2]) {
      const bytes = stream(content('Hi'), FINISH)
      const { sent: sentText, ending } = meter(bytes.subarray(0, -missing), ASKED)
      assert.equal(sentText.trimEnd(), bytes.toString().trimEnd())
      assert.ok(sentText.endsWith('\n\n'))
      assert.equal(ending, 'complete')
    }
    const { sent: sentEvents, ending } = meter(stream(content('Hi'), FINISH).subarray(0, -9), ASKED)
    assert.equal(sentEvents, frame(content('Hi')))
    assert.equal(ending, 'incomplete')
    assert.equal(meter(stream(content('Hi'), DONE).subarray(0, -2), ASKED).ending, 'complete')
  })

  it('forwards comments immediately', () => {
    const meter = createStreamMeter(NOT_ASKED)
    assert.equal(Buffer.concat(meter.push(Buffer.from(': keep-alive\n\n'))).toString(), ': keep-alive\n\n')
    assert.equal(meter.reading.events, 0)
  })

  it('forwards a chunk without copying it, if all of it is forwarded', () => {
    const chunk = stream(content('Hi'), content('!'))
    assert.deepEqual(createStreamMeter(NOT_ASKED).push(chunk), [chunk])
    assert.equal(createStreamMeter(NOT_ASKED).push(chunk)[0], chunk)
  })

  it('uses the memory of a chunk only until the chunk is pushed', () => {
    const text = 'two words \\ and more than thirty-two bytes'
    const bytes = stream(content('Hi'), content(text), FINISH, USAGE, DONE)
    const shared = Buffer.alloc(bytes.length)
    for (const size of CHUNK_SIZES) {
      const meter = createStreamMeter(ASKED)
      const pieces = cut(bytes, size).map(chunk => {
        chunk.copy(shared)
        const text = Buffer.concat(meter.push(shared.subarray(0, chunk.length))).toString()
        shared.fill('x')
        return text
      })
      const ending = Buffer.concat(meter.closing()).toString()
      assert.ok(meter.keepsNothing)
      assert.equal(pieces.join('') + ending, bytes.toString())
      assert.equal(ending, frame(DONE))
      assert.equal(meter.sample?.text(), `Hi${text}`)
    }
  })

  it('uses bounded memory if a stream continues after its end', () => {
    const meter = createStreamMeter(ASKED)
    meter.push(stream(DONE))
    for (let i = 0; i < 1_000; i++) meter.push(stream(content('x'.repeat(1_000))))
    assert.ok(Buffer.concat(meter.closing()).length <= 70_000)
    assert.ok(meter.closing()[0]?.equals(stream(DONE)))
  })

  it('reads the same for any chunk boundaries and any text', () => {
    const words = fc.array(fc.string({ unit: 'grapheme' }), { maxLength: 6 })
    fc.assert(
      fc.property(words, fc.integer({ min: 1, max: 40 }), (words, size) => {
        const bytes = stream(...words.map(content), FINISH, USAGE, DONE)
        const whole = meter(bytes, NOT_ASKED)
        assert.equal(whole.reading.textBytes, Buffer.byteLength(words.join('')))
        assert.deepEqual(meter(bytes, NOT_ASKED, size), whole)
      }),
    )
  })
})

/** How vendors count, as their provider files declare it. */
const USAGE_OPTIONS: Readonly<Record<string, UsageOptions>> = { xai: { reasoningOutside: true } }

/** The content of a stream, computed by a simple and slow implementation. */
function readPlainly(bytes: Buffer) {
  const blocks = bytes.toString().match(/.*?\n\n+|.+$/gs) ?? []
  const dataOf = (block: string) => block.match(/^data: ?(.*)$/m)?.[1]
  const chunks = blocks.flatMap(block => {
    const data = dataOf(block)
    return data === undefined || data === DONE ? [] : [JSON.parse(data) as Json]
  })
  const isUsageAlone = (block: string) => {
    const data = dataOf(block)
    if (data === undefined || data === DONE) return false
    const chunk = JSON.parse(data) as Json
    return chunk.usage != null && chunk.choices?.length === 0
  }
  const choices = chunks.flatMap(chunk => chunk.choices ?? [])
  const deltas = choices.map(choice => choice.delta)
  // A legacy completion has its text in place of a delta.
  const texts = choices.map(choice => String(choice.text ?? ''))
  const usage = chunks.map(chunk => chunk.usage ?? chunk.x_groq?.usage).findLast(each => each != null)
  const wordsOf = (delta: Json | undefined): string[] => [
    ...(typeof delta?.content === 'string' ? [delta.content as string] : []),
    ...(Array.isArray(delta?.content) ? delta.content.map(part => String(part.text ?? '')) : []),
    String(delta?.refusal ?? ''),
    String(delta?.audio?.transcript ?? ''),
    ...(delta?.tool_calls ?? []).flatMap(call => [
      String(call.function?.name ?? ''),
      String(call.function?.arguments ?? ''),
      String(call.custom?.name ?? ''),
      String(call.custom?.input ?? ''),
    ]),
  ]
  const thoughtsOf = (delta: Json | undefined): string[] => [
    String(delta?.reasoning_content ?? delta?.reasoning ?? ''),
    ...(Array.isArray(delta?.content)
      ? delta.content.flatMap(part => (part.thinking ?? []).map(each => String(each.text)))
      : []),
  ]
  return {
    blocks,
    usage,
    events: chunks.length,
    textBytes: Buffer.byteLength([...deltas.flatMap(wordsOf), ...texts].join('')),
    reasoningBytes: Buffer.byteLength(deltas.flatMap(thoughtsOf).join('')),
    finishes: choices.filter(choice => choice.finish_reason).length,
    isDone: blocks.some(block => dataOf(block) === DONE),
    withoutUsageAlone: blocks.filter(block => !isUsageAlone(block)).join(''),
    hasError: chunks.some(chunk => chunk.error),
  }
}

describe('every stream', () => {
  for (const { name, vendor, bytes: recorded } of chatStreams()) {
    // One recording lacks the last line end, which the meter adds.
    const bytes = recorded.toString().endsWith('\n\n')
      ? recorded
      : Buffer.concat([recorded, Buffer.from('\n')])
    const usageOptions = USAGE_OPTIONS[vendor] ?? {}
    const plain = readPlainly(bytes)

    law(`${name} is parsed with the vendor’s meaning`, { transcript: name }, () => {
      const { reading, ending } = meter(bytes, { includeUsage: true, usageOptions })
      assert.deepEqual(reading.usage, readOpenAiUsage(plain.usage, usageOptions))
      assert.equal(reading.events, plain.events)
      assert.equal(reading.textBytes, plain.textBytes)
      assert.equal(reading.reasoningBytes, plain.reasoningBytes)
      assert.equal(reading.finishes, plain.finishes)
      assert.equal(reading.isDone, plain.isDone)
      assert.equal(reading.malformed, 0)
      assert.equal(ending, plain.hasError ? 'error' : 'complete')
      if (plain.usage === undefined || reading.usage === undefined) return
      const { prompt_tokens, completion_tokens, total_tokens } = plain.usage
      assert.equal(totalInput(reading.usage), prompt_tokens)
      assert.equal(totalInput(reading.usage) + totalOutput(reading.usage), total_tokens)
      if (vendor !== 'xai') assert.equal(totalOutput(reading.usage), completion_tokens)
    })

    law(
      `${name} is forwarded completely, and is the same in chunks of any size`,
      { transcript: name },
      () => {
        const whole = meter(bytes, { includeUsage: true, usageOptions })
        assert.equal(whole.sent + whole.held, bytes.toString())
        for (const size of CHUNK_SIZES) {
          assert.deepEqual(meter(bytes, { includeUsage: true, usageOptions }, size), whole)
        }
      },
    )

    law(
      `${name} loses its usage chunk, and no other byte, if the client did not request it`,
      { transcript: name },
      () => {
        for (const size of CHUNK_SIZES) {
          const { sent: sentText, held: heldText } = meter(bytes, { includeUsage: false, usageOptions }, size)
          assert.equal(sentText + heldText, plain.withoutUsageAlone)
        }
      },
    )

    law(`${name} is parsed the same with other line ends`, { transcript: name }, () => {
      for (const end of ['\r\n', '\r']) {
        const other = Buffer.from(bytes.toString().replaceAll('\n', end))
        const {
          reading,
          ending,
          sent: sentText,
          held: heldText,
        } = meter(other, { includeUsage: true, usageOptions }, 64)
        const usual = meter(bytes, { includeUsage: true, usageOptions })
        assert.deepEqual(reading, usual.reading)
        assert.equal(ending, usual.ending)
        assert.equal(sentText + heldText, other.toString())
      }
    })

    law(`${name} is incomplete wherever it is cut before its end`, { transcript: name }, () => {
      const meter = createStreamMeter({ includeUsage: true, usageOptions })
      let expected = 'incomplete'
      for (const block of plain.blocks) {
        meter.push(Buffer.from(block))
        const { finishes, isDone, hasError } = readPlainly(Buffer.from(block))
        if (hasError) expected = 'error'
        else if ((isDone || finishes > 0) && expected !== 'error') expected = 'complete'
        if (block.endsWith('\n\n')) assert.equal(meter.ending(), expected)
      }
    })
  }
})

describe('a non-streamed response', () => {
  it('is an object with choices, and contains its usage', () => {
    const body = Buffer.from(
      '{"choices":[{"message":{"content":"Hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}',
    )
    const reading = meterWhole(body)
    assert.ok(reading.kind === 'answer')
    assert.deepEqual(reading.usage, readOpenAiUsage({ prompt_tokens: 1, completion_tokens: 2 }))
  })

  it('without usage provides the input for a token count', () => {
    const message = {
      content: 'Grüß',
      reasoning_content: 'abc',
      tool_calls: [{ id: 'x', type: 'function', function: { name: 'f', arguments: '{}' } }],
    }
    const reading = meterWhole(Buffer.from(JSON.stringify({ choices: [{ message }, { text: 'plain' }] })))
    assert.ok(reading.kind === 'answer')
    const { sample, ...counted } = reading
    assert.deepEqual(counted, { kind: 'answer', usage: undefined, textBytes: 6 + 3 + 5, reasoningBytes: 3 })
    assert.equal(sample?.text(), 'Grüßabcf{}plain')
  })

  it('is invalid if it is a page, a list, a word, empty or truncated', () => {
    const bodies = [
      '',
      ' ',
      '<html><body>Bad gateway</body></html>',
      '[]',
      '[{"choices":[]}]',
      'null',
      '"choices"',
    ]
    for (const body of [...bodies, '{}', '{"choices":{}}', '{"choices":[{"message":{"content":"Hel']) {
      assert.equal(meterWhole(Buffer.from(body)).kind, 'invalid', body)
    }
  })

  it('is an error if it contains one, whatever its status', () => {
    const body = Buffer.from('{"error":{"message":"filtered"}}')
    assert.deepEqual(meterWhole(body), { kind: 'error', error: { message: 'filtered' } })
    assert.equal(meterWhole(Buffer.from('{"error":null,"choices":[]}')).kind, 'answer')
  })

  it('of embeddings has data in place of choices', () => {
    const body = Buffer.from('{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":3,"total_tokens":3}}')
    const reading = meterWhole(body, { list: 'data' })
    assert.ok(reading.kind === 'answer')
    assert.equal(totalInput(reading.usage as Usage), 3)
    assert.equal(meterWhole(body).kind, 'invalid')
  })
})

describe('every non-streamed response', () => {
  for (const { name, answer } of [...wholeAnswers('completions'), ...wholeAnswers('embeddings')]) {
    law(`${name} is parsed with the vendor’s meaning`, { transcript: name }, () => {
      const { usage, error } = answer as Json
      const list = (answer as Json).data === undefined ? 'choices' : 'data'
      const reading = meterWhole(Buffer.from(JSON.stringify(answer)), { list })
      if (error !== undefined) {
        assert.deepEqual(reading, { kind: 'error', error })
        return
      }
      assert.ok(reading.kind === 'answer' && reading.usage !== undefined)
      assert.equal(totalInput(reading.usage), usage?.prompt_tokens ?? usage?.total_tokens)
      assert.equal(totalOutput(reading.usage), usage?.completion_tokens ?? 0)
    })
  }
})
