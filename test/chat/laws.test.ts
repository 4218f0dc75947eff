import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { eventsOf } from '../../src/chat/hub/answer.ts'
import type { AnswerOptions, IdsAndClock, Inbound, Outbound } from '../../src/chat/hub/format.ts'
import type { ChatAnswer, ChatEvent, ChatRequest, Part } from '../../src/chat/hub/hub.ts'
import { allCounts, totalInput, totalOutput } from '../../src/domain/usage.ts'
import { chatAnswers, chatRequests } from '../support/format-arbitraries.ts'
import {
  type Client,
  hasCustomCall,
  LAWFUL,
  type Lawful,
  merged,
  sseEvents,
  understood,
} from '../support/format-laws.ts'
import { transcriptsOf } from '../support/format-recordings.ts'
import { answerOf } from '../support/gathered-answer.ts'
import { law } from '../support/laws.ts'
import { fc } from '../support/properties.ts'

const CHUNK_SIZES = [1, 7, 64, 4_096]
const NAMES = LAWFUL.map(({ format }) => format.name)

const HELLO: ChatRequest = {
  model: 'm',
  stream: false,
  temperature: 1,
  messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
}

/** Ids that are unique and the same in every run. */
function still(): IdsAndClock {
  let count = 0
  return { newId: prefix => `${prefix}${++count}`, nowS: () => 1_700_000_000 }
}

function decode(format: Outbound, bytes: Buffer, size = bytes.length || 1): readonly ChatEvent[] {
  const decoder = format.createStreamDecoder({ idsAndClock: still() })
  const events: ChatEvent[] = []
  for (let at = 0; at < bytes.length; at += size) events.push(...decoder.push(bytes.subarray(at, at + size)))
  return [...events, ...decoder.end()]
}

/** As a client receives it that requests all optional content. */
function encode(format: Inbound, events: readonly ChatEvent[]): Buffer {
  const options: AnswerOptions = {
    idsAndClock: still(),
    // Without a model name: some formats report the requested one.
    request: { ...HELLO, model: '', stream: true, includeUsage: true },
  }
  const encoder = format.createStreamEncoder(options)
  return Buffer.concat([...events.flatMap(event => encoder.push(event)), ...encoder.end()])
}

function whole(events: readonly ChatEvent[]): ChatAnswer {
  const gathered = answerOf(events)
  assert.ok('answer' in gathered, `an answer was expected, not ${JSON.stringify(gathered)}`)
  return gathered.answer
}

function requestIn(format: Inbound, body: unknown, { model, stream } = HELLO): ChatRequest {
  const read = format.decodeRequest(body, { model, stream })
  assert.ok('request' in read, JSON.stringify(read))
  return read.request
}

/** The grammar of the hub: numbered parts that open, grow and close, one end, and nothing after it. */
function assertGrammar(events: readonly ChatEvent[]): void {
  const opened = new Map<number, number>()
  const open = new Set<string>()
  for (const [at, event] of events.entries()) {
    const isEnd = event.type === 'end' || event.type === 'error'
    assert.equal(isEnd, at === events.length - 1, `${event.type} at ${at} of ${events.length}`)
    if (event.type === 'open') {
      assert.equal(event.part, opened.get(event.choice) ?? 0, 'parts are numbered as they open')
      opened.set(event.choice, event.part + 1)
      open.add(`${event.choice}.${event.part}`)
    }
    if (event.type === 'delta')
      assert.ok(open.has(`${event.choice}.${event.part}`), 'only an open part grows')
    if (event.type === 'close')
      assert.ok(open.delete(`${event.choice}.${event.part}`), 'only an open part closes')
  }
  if (events.at(-1)?.type === 'end') assert.equal(open.size, 0, 'every part is closed at the end')
}

function choicesOf(events: readonly ChatEvent[]): unknown {
  const gathered = answerOf(events)
  return 'error' in gathered ? gathered : gathered.answer.choices
}

/** Other formats have one usage for all inferences of a request. */
function totals(usage: ChatAnswer['usage']) {
  if (usage === undefined) return undefined
  const counts = allCounts(usage)
  return { input: totalInput(counts), output: totalOutput(counts), cached: counts.cachedInput }
}

for (const lawful of LAWFUL) {
  describe(`responses in ${lawful.format.name}`, () => readsAnswers(lawful))
  const { client } = lawful
  if (client === undefined) continue
  describe(`transcripts in ${client.format.name}`, () => keepsTranscripts(lawful, client))
  describe(`the laws of ${client.format.name}`, () => keepsWhatIsMeant(client))
  for (const upstream of LAWFUL) {
    if (upstream === lawful) continue
    const title = `a client of ${client.format.name} before ${upstream.format.name}`
    describe(title, () => carries(lawful, client, upstream))
  }
}

function readsAnswers({ format, transcripts, strange, events: cut = sseEvents }: Lawful): void {
  const all = transcriptsOf(transcripts)
  const { answers, streams, errors } = all

  it('has transcripts of all kinds', () => {
    for (const kind of ['requests', 'answers', 'streams', 'errors'] as const) {
      assert.ok(all[kind].length > 0, kind)
    }
  })

  for (const { name, value } of streams) {
    law(`decodes ${name} to the same events with any chunk boundaries`, { transcript: name }, () => {
      const events = decode(format, value)
      assertGrammar(events)
      for (const size of CHUNK_SIZES)
        assert.deepEqual(decode(format, value, size), events, `by ${size} bytes`)
    })

    law(`never reports a part of ${name} as complete`, { transcript: name }, () => {
      const frames = cut(value)
      const all = answerOf(decode(format, value))
      for (let count = 0; count < frames.length; count++) {
        const events = decode(format, Buffer.concat(frames.slice(0, count)))
        assertGrammar(events)
        if (events.at(-1)?.type === 'error') continue
        // Only what follows the last text of each choice may be missing: its usage, its terminator, trailing
        // metadata.
        assert.ok(events.some(event => event.type === 'finish'))
        if ('answer' in all) assert.deepEqual(whole(events).choices, all.answer.choices)
      }
    })

    law(`skips unknown events in ${name}`, { transcript: name }, () => {
      const frames = cut(value).flatMap((frame, at) => (at === 0 ? [frame] : [strange, frame]))
      assert.deepEqual(choicesOf(decode(format, Buffer.concat(frames))), choicesOf(decode(format, value)))
    })
  }

  for (const { name, value } of answers) {
    law(`parses the response ${name}`, { transcript: name }, () => {
      const decoded = format.decodeAnswer(value, { idsAndClock: still() })
      if ('error' in decoded) assert.notEqual(decoded.error.message, '')
      else assert.deepEqual(format.readUsage(value), decoded.usage)
    })
  }

  for (const { name, status, value } of errors) {
    law(`parses the error ${name}`, { transcript: name }, () => {
      const { kind, message } = format.decodeError({ status, body: value })
      assert.doesNotMatch(message, /^The provider returned status/)
      assert.ok(status >= 500 || kind !== 'server', `${status} is no fault of the server`)
    })
  }

  it('parses any value as a response without throwing', () => {
    fc.assert(
      fc.property(fc.jsonValue(), body => {
        format.decodeAnswer(body, { idsAndClock: still() })
        format.decodeError({ status: 500, body })
        format.readUsage(body)
      }),
      { numRuns: 200 },
    )
  })

  it('parses any bytes as a stream without throwing', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), bytes =>
        assertGrammar(decode(format, Buffer.from(bytes))),
      ),
      { numRuns: 200 },
    )
  })
}

function keepsTranscripts({ transcripts }: Lawful, client: Client): void {
  const { format, fitRequest } = client
  const { requests, answers, streams, errors } = transcriptsOf(transcripts)

  for (const { name, value } of streams.filter(({ isPure }) => isPure)) {
    law(`parse the stream ${name} like the vendor's SDK`, { transcript: name }, async () => {
      const gathered = answerOf(decode(format, value))
      const isRefused = 'answer' in gathered && client.refusesCustomCalls && hasCustomCall(gathered.answer)
      if ('error' in gathered || isRefused) await assert.rejects(client.readStream(value))
      else assert.deepEqual(understood(gathered.answer, client), await client.readStream(value))
    })
  }

  for (const { name, value } of answers.filter(({ isPure }) => isPure)) {
    law(`parse the response ${name} like the vendor's SDK`, { transcript: name }, async () => {
      const answer = format.decodeAnswer(value, { idsAndClock: still() })
      if ('error' in answer) return
      assert.deepEqual(understood(answer, client), await client.readWhole(value))
    })
  }

  for (const { name, value } of answers) {
    law(`preserve the response ${name}`, { transcript: name }, () => {
      const decoded = format.decodeAnswer(value, { idsAndClock: still() })
      if ('error' in decoded) return
      const encodedAnswer = format.encodeAnswer(decoded, { idsAndClock: still() })
      assert.deepEqual(format.decodeAnswer(encodedAnswer, { idsAndClock: still() }), decoded)
    })
  }

  for (const { name, value } of requests) {
    law(`preserve the request ${name}`, { transcript: name }, () => {
      const request = requestIn(format, value)
      const { body, warnings } = format.encodeRequest(request)
      assert.deepEqual(warnings, [])
      assert.deepEqual(fitRequest(merged(requestIn(format, body, request))), fitRequest(merged(request)))
    })
  }

  for (const { name, status, value } of errors) {
    law(`preserve the meaning of the error ${name}`, { transcript: name }, () => {
      const error = format.decodeError({ status, body: value })
      const again = format.decodeError(format.encodeError(error))
      assert.deepEqual([again.kind, again.message], [error.kind, error.message])
    })
  }
}

/** The media of all messages and tool results. */
const mediaIn = ({ messages }: ChatRequest): readonly Part[] =>
  messages
    .flatMap(({ content }) => content.flatMap(part => (part.type === 'toolResult' ? part.content : [part])))
    .filter(({ type }) => type === 'media')

function keepsWhatIsMeant({ format, fitRequest, fitAnswer, readStream }: Client): void {
  it('drops nothing of a request without a warning', () => {
    let unwarned = 0
    fc.assert(
      fc.property(chatRequests(NAMES), request => {
        const { body, warnings } = format.encodeRequest(request)
        const again = requestIn(format, JSON.parse(JSON.stringify(body)), request)
        if (warnings.length > 0) return
        unwarned += 1
        assert.deepEqual(fitRequest(merged(again)), fitRequest(merged(request)))
      }),
      { numRuns: 400 },
    )
    assert.ok(unwarned > 10, `only ${unwarned} requests were without a warning`)
  })

  it('reports every lost image, sound and file as lost content', () => {
    fc.assert(
      fc.property(chatRequests(NAMES), request => {
        const { body, warnings } = format.encodeRequest(request)
        const again = requestIn(format, JSON.parse(JSON.stringify(body)), request)
        const lost = mediaIn(request).length - mediaIn(again).length
        assert.equal(
          warnings.some(({ lostContent }) => lostContent !== undefined),
          lost > 0,
        )
      }),
      { numRuns: 400 },
    )
  })

  it('writes a parsed request back unchanged', () => {
    fc.assert(
      fc.property(chatRequests(NAMES), request => {
        const { body } = format.encodeRequest(request)
        const again = format.encodeRequest(requestIn(format, body, request))
        assert.deepEqual(again, { body, warnings: [] })
      }),
      { numRuns: 200 },
    )
  })

  it('preserves non-streamed responses', () => {
    fc.assert(
      fc.property(chatAnswers, generatedAnswer => {
        const answer = fitAnswer(generatedAnswer)
        const body = JSON.parse(JSON.stringify(format.encodeAnswer(answer, { idsAndClock: still() })))
        const decoded = format.decodeAnswer(body, { idsAndClock: still() })
        assert.ok(!('error' in decoded))
        assert.deepEqual(fitAnswer(decoded), answer)
      }),
      { numRuns: 300 },
    )
  })

  it('preserves streamed responses', () => {
    fc.assert(
      fc.property(chatAnswers, generatedAnswer => {
        const answer = fitAnswer(generatedAnswer)
        const events = decode(format, encode(format, eventsOf(answer)))
        assertGrammar(events)
        assert.deepEqual(fitAnswer(whole(events)), answer)
      }),
      { numRuns: 300 },
    )
  })

  it('reports a stream that breaks off as an error, to the SDK as well', async () => {
    const events = eventsOf({
      id: 'msg_1',
      model: 'm',
      choices: [{ parts: [{ type: 'text', text: 'half' }], stop: { reason: 'stop' } }],
    })
    const bytes = encode(format, events.slice(0, 3))
    assert.equal(decode(format, bytes).at(-1)?.type, 'error')
    await assert.rejects(readStream(bytes))
  })

  it('names the invalid field of a request', () => {
    for (const body of [null, [], 'text']) {
      const read = format.decodeRequest(body)
      assert.ok('fault' in read)
      assert.equal(read.fault.code, 'invalid_json')
    }
    const missing = format.decodeRequest({ model: 'm' }, { model: 'm' })
    assert.ok('fault' in missing)
    assert.equal(missing.fault.code, 'missing_parameter')
    const { body } = format.encodeRequest(HELLO)
    const wrong = format.decodeRequest(withHeat(body), { model: 'm' })
    assert.ok('fault' in wrong)
    assert.equal(wrong.fault.code, 'invalid_parameter')
    assert.match(wrong.fault.param ?? '', /temperature$/)
    for (const limit of [0, -1, 1.5]) {
      const limited = { ...HELLO, maxTokens: limit }
      const bad = format.decodeRequest(format.encodeRequest(limited).body, { model: 'm' })
      assert.ok('fault' in bad, `a limit of ${limit}`)
      assert.equal(bad.fault.code, 'invalid_parameter')
    }
    const nameless = format.decodeRequest({ ...body, model: '' }, { model: '' })
    assert.ok('fault' in nameless)
    assert.deepEqual([nameless.fault.code, nameless.fault.param], ['missing_parameter', 'model'])
  })

  it('parses any value as a request without throwing', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (messages, input) => {
        const body = { model: 'm', messages, input, contents: messages, tools: input, max_tokens: 1 }
        const read = format.decodeRequest(body, { model: 'm' })
        assert.ok('request' in read || read.fault.message !== '')
      }),
      { numRuns: 300 },
    )
  })
}

/** The temperature, in the field of the format, as a value that is not a number. */
const withHeat = (body: unknown): unknown =>
  JSON.parse(JSON.stringify(body), (name, value) => (name === 'temperature' ? 'hot' : value))

function carries({ transcripts }: Lawful, client: Client, upstream: Lawful): void {
  const { format, readStream, readWhole } = client
  const pair = `${format.name} before ${upstream.format.name}`
  const { answers, streams } = transcriptsOf(upstream.transcripts)

  for (const { name, value } of streams) {
    law(`accepts the stream ${name}`, { transcript: name, pair }, async () => {
      const events = decode(upstream.format, value)
      const bytes = encode(format, events)
      if (events.at(-1)?.type === 'error') {
        await assert.rejects(readStream(bytes))
        return
      }
      const answer = whole(events)
      if (client.refusesCustomCalls && hasCustomCall(answer)) await assert.rejects(readStream(bytes))
      else assert.deepEqual(await readStream(bytes), understood(answer, client))
      const again = whole(decode(format, bytes))
      assert.deepEqual(understood(again, client), understood(answer, client))
      if (answer.usage !== undefined) assert.deepEqual(totals(again.usage), totals(answer.usage))
    })
  }

  for (const { name, value } of answers) {
    law(`accepts the response ${name}`, { transcript: name, pair }, async () => {
      const answer = upstream.format.decodeAnswer(value, { idsAndClock: still() })
      if ('error' in answer) {
        assert.ok(format.encodeError(answer.error).status >= 400)
        return
      }
      const body = format.encodeAnswer(answer, { idsAndClock: still() })
      assert.deepEqual(await readWhole(body), understood(answer, client))
      if (answer.usage !== undefined) assert.deepEqual(totals(format.readUsage(body)), totals(answer.usage))
    })
  }

  for (const { name, value } of transcriptsOf(transcripts).requests) {
    law(`forwards the request ${name}`, { transcript: name, pair }, () => {
      const request = requestIn(format, value)
      const { body, warnings } = upstream.format.encodeRequest(request)
      for (const { field, message } of warnings) assert.ok(field !== '' && message !== '')
      if (upstream.client !== undefined) requestIn(upstream.client.format, body, request)
    })
  }
}
