import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createSseScanner, dataText, SseError, type SseFrame, type SseLimits } from '../../src/wire/sse.ts'
import { fc } from '../support/properties.ts'

type Seen = { readonly bytes: string; readonly event: string; readonly data: string | undefined }

const see = (frame: SseFrame): Seen & { readonly isWhole: boolean } => ({
  // Latin-1 keeps every byte distinct.
  bytes: frame.source.toString('latin1', frame.start, frame.end),
  event: frame.event,
  data: frame.data.length === 0 ? undefined : dataText(frame),
  isWhole: frame.isWhole,
})

function scan(chunks: readonly Buffer[], limits?: Partial<SseLimits>) {
  const scanner = createSseScanner(limits)
  const frames = chunks.flatMap(chunk => scanner.push(chunk).map(see))
  return [...frames, ...scanner.end().map(see)]
}

const scanText = (text: string) => scan([Buffer.from(text)])

function cut(bytes: Buffer, size: number): readonly Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
    bytes.subarray(index * size, (index + 1) * size),
  )
}

const events = (frames: readonly Seen[]) =>
  frames.flatMap(({ event, data }) => (data === undefined ? [] : [{ event, data }]))

describe('a stream of events', () => {
  it('is split after every blank line', () => {
    assert.deepEqual(scanText('data: a\n\ndata: b\n\n'), [
      { bytes: 'data: a\n\n', event: '', data: 'a', isWhole: true },
      { bytes: 'data: b\n\n', event: '', data: 'b', isWhole: true },
    ])
  })

  it('may end its lines with LF, CRLF or CR', () => {
    for (const end of ['\n', '\r\n', '\r']) {
      const frames = scanText(`event: x${end}data: a${end}${end}data: b${end}${end}`)
      assert.deepEqual(events(frames), [
        { event: 'x', data: 'a' },
        { event: '', data: 'b' },
      ])
      assert.equal(frames.length, 2)
    }
  })

  it('may have data without the space, empty data, and data in several lines', () => {
    assert.deepEqual(events(scanText('data:a\n\ndata\n\ndata:\n\ndata:  b\ndata: c\n\n')), [
      { event: '', data: 'a' },
      { event: '', data: '' },
      { event: '', data: '' },
      { event: '', data: ' b\nc' },
    ])
  })

  it('may have other fields, and names that only start like known ones', () => {
    const text = 'id: 7\nretry: 10\ndatum: x\neventually: y\ndata: a\n\n'
    assert.deepEqual(scanText(text), [{ bytes: text, event: '', data: 'a', isWhole: true }])
  })

  it('has comments, which are forwarded immediately and belong to no event', () => {
    const scanner = createSseScanner()
    assert.deepEqual(scanner.push(Buffer.from(': ping\n')).map(see), [
      { bytes: ': ping\n', event: '', data: undefined, isWhole: true },
    ])
    assert.deepEqual(events(scanText(': one\ndata: a\n: two\ndata: b\n\n')), [{ event: '', data: 'a\nb' }])
  })

  it('may start with a byte order mark, which is not allowed later', () => {
    const frames = scanText('\ufeffdata: a\n\n\ufeffdata: b\n\ndata: c\n\n')
    assert.deepEqual(events(frames), [
      { event: '', data: 'a' },
      { event: '', data: 'c' },
    ])
  })

  it('applies a name to its own event only', () => {
    assert.deepEqual(events(scanText('event: error\ndata: a\n\ndata: b\n\nevent: lone\n\ndata: c\n\n')), [
      { event: 'error', data: 'a' },
      { event: '', data: 'b' },
      { event: '', data: 'c' },
    ])
  })

  it('may end without the last blank line, which is reported', () => {
    for (const tail of ['data: [DONE]', 'data: [DONE]\n', 'data: [DONE]\r\n', 'data: [DONE]\r']) {
      const frames = scanText(`data: a\n\n${tail}`)
      assert.deepEqual(frames.at(-1), { bytes: tail, event: '', data: '[DONE]', isWhole: false })
    }
    assert.deepEqual(scanText(''), [])
  })

  it('returns a frame with its last byte, without waiting for the next frame', () => {
    for (const end of ['\n', '\r\n', '\r']) {
      const scanner = createSseScanner()
      const bytes = Buffer.from(`data: a${end}${end}`)
      assert.deepEqual(scanner.push(bytes.subarray(0, -1)), [])
      assert.equal(scanner.push(bytes.subarray(-1)).length, 1)
    }
  })

  it('is not copied if a chunk contains whole frames', () => {
    const chunk = Buffer.from('data: a\n\ndata: b\n\n')
    for (const frame of createSseScanner().push(chunk)) assert.equal(frame.source, chunk)
  })

  it('returns frames that later input does not change', () => {
    const scanner = createSseScanner()
    const frames = cut(Buffer.from('data: aa\n\ndata: bb\n\ndata: cc\n\n'), 13).flatMap(chunk =>
      scanner.push(chunk),
    )
    assert.deepEqual(
      frames.map(frame => dataText(frame)),
      ['aa', 'bb', 'cc'],
    )
  })
})

/** The standard's algorithm, on a complete text. */
function reference(text: string) {
  const dispatchedEvents: { event: string; data: string }[] = []
  let event = ''
  let data: string[] = []
  for (const line of text.replace(/^\ufeff/, '').split(/\r\n|\n|\r/)) {
    if (line === '') {
      if (data.length > 0) dispatchedEvents.push({ event, data: data.join('\n') })
      event = ''
      data = []
      continue
    }
    const [, name, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
    if (name === 'data') data.push(value)
    if (name === 'event') event = value
  }
  return dispatchedEvents
}

const line = fc.oneof(
  fc.constantFrom(
    'data',
    'data:',
    'data: {"a":1}',
    'data: [DONE]',
    'event: error',
    ': note',
    'id: 1',
    'x',
    '',
  ),
  fc.string({ unit: 'grapheme' }).map(text => `data: ${text.replace(/[\r\n]/g, '')}`),
)
const lineEnd = fc.constantFrom('\n', '\r\n', '\r')
const stream = fc
  .tuple(fc.constantFrom('', '\ufeff'), fc.array(fc.tuple(line, lineEnd), { maxLength: 30 }))
  .map(([mark, lines]) => mark + lines.map(([text, end]) => text + end).join(''))

describe('for any stream and chunks', () => {
  it('the events are those of the standard', () => {
    fc.assert(
      fc.property(stream, text => {
        const whole = `${text}\n\n`
        assert.deepEqual(events(scanText(whole)), reference(whole))
      }),
      { numRuns: 1_000 },
    )
  })

  it('the frames are the same, and their concatenation is the stream', () => {
    fc.assert(
      fc.property(stream, fc.array(fc.integer({ min: 1, max: 9 })), (text, sizes) => {
        const bytes = Buffer.from(text)
        const whole = scan([bytes])
        assert.equal(whole.map(frame => frame.bytes).join(''), bytes.toString('latin1'))
        assert.deepEqual(scan(cut(bytes, 1)), whole)
        const chunks: Buffer[] = []
        let at = 0
        for (const size of sizes) {
          chunks.push(bytes.subarray(at, at + size))
          at += size
        }
        assert.deepEqual(scan([...chunks, bytes.subarray(at)]), whole)
      }),
      { numRuns: 1_000 },
    )
  })
})

describe('a stream without an end', () => {
  const limits = { maxLineBytes: 100, maxEventBytes: 300 }
  const fails = (code: SseError['code']) => (error: unknown) =>
    error instanceof SseError && error.code === code

  it('may have lines and events up to the limits', () => {
    for (const end of ['\n', '\r\n', '\r']) {
      const bytes = Buffer.from(`data: ${'x'.repeat(94)}${end}${end}`)
      for (const size of [1, 7, 1_000]) assert.equal(scan(cut(bytes, size), limits).length, 1)
    }
  })

  it('is refused for a line above the limit, finished or not', () => {
    const line = `data: ${'x'.repeat(95)}`
    for (const text of [line, `${line}\n\n`]) {
      for (const size of [1, 7, 1_000]) {
        assert.throws(() => scan(cut(Buffer.from(text), size), limits), fails('line_too_long'))
      }
    }
  })

  it('is refused for an event above the limit, with any number of lines', () => {
    const text = 'data: x\n'.repeat(40)
    for (const size of [1, 7, 1_000]) {
      assert.throws(() => scan(cut(Buffer.from(text), size), limits), fails('event_too_long'))
    }
  })

  it('returns the frames before the refused one, and nothing after', () => {
    const scanner = createSseScanner(limits)
    const frames = scanner.push(Buffer.from(`data: a\n\n${'x'.repeat(101)}\n\ndata: b\n\n`))
    assert.deepEqual(events(frames.map(see)), [{ event: '', data: 'a' }])
    assert.throws(() => scanner.push(Buffer.from('data: c\n\n')), fails('line_too_long'))
    assert.throws(() => scanner.end(), fails('line_too_long'))
  })

  it('is refused after one mebibyte of a line by default', () => {
    const scanner = createSseScanner()
    const piece = Buffer.alloc(65_536, 'x')
    for (let i = 0; i < 16; i++) assert.deepEqual(scanner.push(piece), [])
    assert.throws(() => scanner.push(piece), fails('line_too_long'))
  })
})
