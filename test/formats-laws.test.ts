import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { totalInput, totalOutput } from '../src/domain/usage.ts'
import { answerOf, eventsOf } from '../src/formats/answer.ts'
import type { Ambience, Format } from '../src/formats/format.ts'
import type { ChatAnswer, ChatEvent } from '../src/formats/hub.ts'
import { chatAnswers, chatRequests } from './support/format-arbitraries.ts'
import { LAWFUL, merged, understood } from './support/format-laws.ts'
import { recordingsOf } from './support/format-recordings.ts'
import { hasRecordings, WITHOUT_RECORDINGS } from './support/recordings.ts'

const CHUNK_SIZES = [1, 7, 64, 4_096]
const NAMES = LAWFUL.map(({ format }) => format.name)

/** Ids that are new and yet the same in every run. */
function still(): Ambience {
  let count = 0
  return { newId: prefix => `${prefix}${++count}`, nowS: () => 1_700_000_000 }
}

function decode(format: Format, bytes: Buffer, size = bytes.length || 1): readonly ChatEvent[] {
  const decoder = format.createStreamDecoder({ ambience: still() })
  const events: ChatEvent[] = []
  for (let at = 0; at < bytes.length; at += size) events.push(...decoder.push(bytes.subarray(at, at + size)))
  return [...events, ...decoder.end()]
}

function encode(format: Format, events: readonly ChatEvent[]): Buffer {
  const encoder = format.createStreamEncoder({ ambience: still() })
  return Buffer.concat([...events.flatMap(event => encoder.push(event)), ...encoder.end()])
}

function whole(events: readonly ChatEvent[]): ChatAnswer {
  const gathered = answerOf(events)
  assert.ok('answer' in gathered, `an answer was expected, not ${JSON.stringify(gathered)}`)
  return gathered.answer
}

/** The grammar of the hub: numbered parts that open, grow and close, one end, and nothing after it. */
function assertGrammar(events: readonly ChatEvent[]): void {
  const opened = new Map<number, number>()
  const open = new Set<string>()
  for (const [at, event] of events.entries()) {
    const isLast = at === events.length - 1
    assert.equal(
      event.type === 'end' || event.type === 'error',
      isLast,
      `${event.type} at ${at} of ${events.length}`,
    )
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

/** The bytes of each event of an SSE stream. */
const framesOf = (bytes: Buffer) => bytes.toString().split(/(?<=\r?\n\r?\n)/)

for (const lawful of LAWFUL) {
  const { format } = lawful
  describe(`the format ${format.name}`, { skip: hasRecordings ? false : WITHOUT_RECORDINGS }, () => {
    const { requests, answers, streams, errors } = recordingsOf(lawful.recordings)

    it('has recordings of all kinds', () => {
      for (const recorded of [requests, answers, streams, errors]) assert.ok(recorded.length > 0)
    })

    for (const { name, value } of streams) {
      it(`decodes ${name} to the same events however it is cut`, () => {
        const events = decode(format, value)
        assertGrammar(events)
        for (const size of CHUNK_SIZES)
          assert.deepEqual(decode(format, value, size), events, `by ${size} bytes`)
      })

      it(`never takes a part of ${name} for the whole`, () => {
        const frames = framesOf(value)
        const all = answerOf(decode(format, value))
        for (let count = 0; count < frames.length; count++) {
          const events = decode(format, Buffer.from(frames.slice(0, count).join('')))
          assertGrammar(events)
          if (events.at(-1)?.type === 'error') continue
          // Only what came after the last word of each choice may be missing: its usage, its terminator, an afterthought.
          assert.ok(events.some(event => event.type === 'finish'))
          if ('answer' in all) assert.deepEqual(whole(events).choices, all.answer.choices)
        }
      })

      it(`reads ${name} past events and fields that nobody knows`, () => {
        const strange = Buffer.from(framesOf(value).join(lawful.strange))
        assert.deepEqual(partsOf(decode(format, strange)), partsOf(decode(format, value)))
      })
    }

    for (const { name, value } of answers) {
      it(`keeps the answer ${name} through its own words`, () => {
        const decoded = format.decodeAnswer(value, { ambience: still() })
        if ('error' in decoded) return assert.notEqual(decoded.error.message, '')
        const written = format.encodeAnswer(decoded, { ambience: still() })
        assert.deepEqual(format.decodeAnswer(written, { ambience: still() }), decoded)
        assert.deepEqual(format.readUsage(written), format.readUsage(value))
      })
    }

    for (const { name, value } of requests) {
      it(`keeps the request ${name} through its own words`, () => {
        const decoded = format.decodeRequest(value)
        assert.ok('request' in decoded, JSON.stringify(decoded))
        const { body, warnings } = format.encodeRequest(decoded.request)
        assert.deepEqual(warnings, [])
        const again = format.decodeRequest(body)
        assert.ok('request' in again)
        const { fitRequest } = lawful
        assert.deepEqual(fitRequest(merged(again.request)), fitRequest(merged(decoded.request)))
      })
    }

    for (const { name, status, value } of errors) {
      it(`tells the error ${name} again with the same meaning`, () => {
        const error = format.decodeError({ status, body: value })
        assert.doesNotMatch(error.message, /^the provider answered with the status/)
        const again = format.decodeError(format.encodeError(error))
        assert.equal(again.kind, error.kind)
        assert.equal(again.message, error.message)
      })
    }
  })

  describe(`the laws of ${format.name}`, () => {
    it('loses nothing of a request without a warning', () => {
      let unwarned = 0
      fc.assert(
        fc.property(chatRequests(NAMES), request => {
          const { body, warnings } = format.encodeRequest(request)
          const decoded = format.decodeRequest(JSON.parse(JSON.stringify(body)))
          assert.ok('request' in decoded, JSON.stringify(decoded))
          if (warnings.length > 0) return
          unwarned += 1
          const { fitRequest } = lawful
          assert.deepEqual(fitRequest(merged(decoded.request)), fitRequest(merged(request)))
        }),
        { numRuns: 400 },
      )
      assert.ok(unwarned > 20, `only ${unwarned} requests were without a warning`)
    })

    it('writes a request that it has read the same way again', () => {
      fc.assert(
        fc.property(chatRequests(NAMES), request => {
          const once = format.encodeRequest(request).body
          const read = format.decodeRequest(once)
          assert.ok('request' in read)
          assert.deepEqual(format.encodeRequest(read.request), { body: once, warnings: [] })
        }),
        { numRuns: 200 },
      )
    })

    it('keeps whole answers', () => {
      fc.assert(
        fc.property(chatAnswers, given => {
          const answer = lawful.fitAnswer(given)
          const body = JSON.parse(JSON.stringify(format.encodeAnswer(answer, { ambience: still() })))
          const decoded = format.decodeAnswer(body, { ambience: still() })
          assert.ok(!('error' in decoded))
          assert.deepEqual(lawful.fitAnswer(decoded), answer)
          assert.deepEqual(format.readUsage(body), answer.usage)
        }),
        { numRuns: 300 },
      )
    })

    it('keeps streamed answers', () => {
      fc.assert(
        fc.property(chatAnswers, given => {
          const answer = lawful.fitAnswer(given)
          const encoder = format.createStreamEncoder({
            ambience: still(),
            request: { model: 'm', stream: true, messages: [], includeUsage: true },
          })
          const bytes = Buffer.concat(eventsOf(answer).flatMap(event => encoder.push(event)))
          const events = decode(format, bytes)
          assertGrammar(events)
          assert.deepEqual(lawful.fitAnswer(whole(events)), answer)
        }),
        { numRuns: 300 },
      )
    })

    it('tells a stream that breaks off as an error, to the SDK as well', async () => {
      const [start, ...others] = eventsOf({
        id: 'msg_1',
        model: 'm',
        choices: [{ parts: [{ type: 'text', text: 'half' }], stop: { reason: 'stop' } }],
      })
      const encoder = format.createStreamEncoder({ ambience: still() })
      const bytes = Buffer.concat(
        [start as ChatEvent, ...others.slice(0, 2)]
          .flatMap(event => encoder.push(event))
          .concat(encoder.end()),
      )
      assert.equal(decode(format, bytes).at(-1)?.type, 'error')
      await assert.rejects(lawful.readStream(bytes))
    })

    it('names the field of a request that cannot be read', () => {
      for (const body of [null, [], 'text']) {
        const read = format.decodeRequest(body)
        assert.ok('fault' in read)
        assert.equal(read.fault.code, 'invalid_json')
      }
      const missing = format.decodeRequest({ model: 'm' })
      assert.ok('fault' in missing)
      assert.equal(missing.fault.code, 'missing_parameter')
      const { body } = format.encodeRequest({ model: 'm', stream: false, temperature: 1, messages: HELLO })
      const wrong = format.decodeRequest({ ...body, temperature: 'hot' })
      assert.ok('fault' in wrong)
      assert.deepEqual([wrong.fault.code, wrong.fault.param], ['invalid_parameter', 'temperature'])
    })
  })

  for (const upstream of LAWFUL) {
    if (upstream === lawful) continue
    describe(`a client of ${format.name} before ${upstream.format.name}`, {
      skip: hasRecordings ? false : WITHOUT_RECORDINGS,
    }, () => {
      const { answers, streams } = recordingsOf(upstream.recordings)

      for (const { name, value } of streams) {
        it(`understands the stream ${name}`, async () => {
          const events = decode(upstream.format, value)
          const bytes = encode(format, events)
          if (events.at(-1)?.type === 'error') return assert.rejects(lawful.readStream(bytes))
          const answer = whole(events)
          assert.deepEqual(await lawful.readStream(bytes), understood(answer))
          assertSameMeaning(format, decode(format, encodeForUsage(format, events)), answer)
        })
      }

      for (const { name, value } of answers) {
        it(`understands the answer ${name}`, async () => {
          const answer = upstream.format.decodeAnswer(value, { ambience: still() })
          if ('error' in answer) return assert.ok(format.encodeError(answer.error).status >= 400)
          const body = format.encodeAnswer(answer, { ambience: still() })
          assert.deepEqual(await lawful.readWhole(body), understood(answer))
          assert.deepEqual(totals(format.readUsage(body)), totals(answer.usage))
        })
      }

      for (const { name, value } of recordingsOf(lawful.recordings).requests) {
        it(`sends the request ${name} on`, () => {
          const read = format.decodeRequest(value)
          assert.ok('request' in read)
          const { body, warnings } = upstream.format.encodeRequest(read.request)
          const again = upstream.format.decodeRequest(body)
          assert.ok('request' in again, JSON.stringify(again))
          for (const { field, message } of warnings) assert.ok(field !== '' && message !== '')
        })
      }
    })
  }
}

const HELLO = [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }] as const

function partsOf(events: readonly ChatEvent[]): unknown {
  const gathered = answerOf(events)
  return 'error' in gathered ? gathered : gathered.answer.choices
}

function encodeForUsage(format: Format, events: readonly ChatEvent[]): Buffer {
  const request = { model: 'm', stream: true, messages: [], includeUsage: true }
  const encoder = format.createStreamEncoder({ ambience: still(), request })
  return Buffer.concat(events.flatMap(event => encoder.push(event)))
}

function assertSameMeaning(format: Format, events: readonly ChatEvent[], answer: ChatAnswer): void {
  const again = whole(events)
  assert.deepEqual(understood(again), understood(answer), format.name)
  if (answer.usage !== undefined) assert.deepEqual(totals(again.usage), totals(answer.usage))
}

const totals = (usage: ChatAnswer['usage']) =>
  usage && { input: totalInput(usage), output: totalOutput(usage), cached: usage.cachedInput }
