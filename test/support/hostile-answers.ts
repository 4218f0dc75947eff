import { fc } from './properties.ts'

/** What a provider sends in place of a response. */
export type HostileAnswer = {
  readonly status: number
  readonly type: string
  /** Chunks of the body, as they are written. */
  readonly pieces: readonly Buffer[]
  /** The connection is destroyed after the last chunk. */
  readonly isCut: boolean
}

const brackets = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
const names = (count: number) =>
  `{${Array.from({ length: count }, (_, index) => `"name ${index}":${index}`).join(',')}}`

/** Values in place of those that a provider would have sent. */
const hostileValue = fc.oneof(
  fc.integer({ min: 1, max: 60_000 }).map(brackets),
  fc.integer({ min: 1, max: 30_000 }).map(names),
  fc.integer({ min: 1, max: 300_000 }).map(length => JSON.stringify('a'.repeat(length))),
  fc.integer({ min: 1, max: 20_000 }).map(times => `"${'\\u0041'.repeat(times)}"`),
  fc.integer({ min: 1, max: 100_000 }).map(count => `[${'1,'.repeat(count)}1]`),
  fc.integer({ min: 1, max: 40_000 }).map(count => `[${'{},'.repeat(count)}{}]`),
  fc.integer({ min: 1, max: 5_000 }).map(digits => '9'.repeat(digits)),
  fc.constantFrom(
    'null',
    'true',
    '-1',
    '1e400',
    '""',
    '{}',
    '[]',
    '{"__proto__":{"a":1}}',
    '"\\ud800"',
    'NaN',
    '01',
  ),
  fc.json({ maxDepth: 4 }),
)

/** Replaces some values of a valid document with hostile ones. */
const spoilt = (good: string) =>
  fc
    .array(fc.tuple(fc.nat(), hostileValue), { minLength: 0, maxLength: 3 })
    .map(edits => edits.reduce((text, [at, value]) => replaceValue(text, at, value), good))

const VALUE = /(?<=[:[,])(?:"(?:[^"\\]|\\.)*"|-?\d+|true|false|null)(?=[,}\]])/g

function replaceValue(text: string, at: number, value: string): string {
  const places = [...text.slice(0, 20_000).matchAll(VALUE)]
  const place = places[at % Math.max(1, places.length)]
  if (place === undefined) return text
  return text.slice(0, place.index) + value + text.slice(place.index + place[0].length)
}

/** Bytes that were changed in transit: truncated, repeated, or not text. */
const damaged = (text: fc.Arbitrary<string>) =>
  fc
    .tuple(text, fc.constantFrom('none', 'cut', 'byte', 'twice', 'marked'), fc.nat())
    .map(([originalText, how, at]) => {
      const bytes = Buffer.from(originalText)
      const place = at % Math.max(1, bytes.length)
      if (how === 'cut') return bytes.subarray(0, place)
      if (how === 'twice') return Buffer.concat([bytes, bytes])
      if (how === 'marked') return Buffer.concat([Buffer.from('\ufeff'), bytes])
      if (how === 'byte' && bytes.length > 0) bytes[place] = at % 256
      return bytes
    })

const chunked = (bytes: Buffer, size: number): readonly Buffer[] => {
  const step = Math.max(size, Math.ceil(bytes.length / 2_000))
  return Array.from({ length: Math.ceil(bytes.length / step) }, (_, index) =>
    bytes.subarray(index * step, (index + 1) * step),
  )
}

/** Hostile responses derived from a valid one: documents, or streams of these events. */
export function hostileAnswer(
  good: { readonly whole: string; readonly events: readonly string[] },
  isStream: boolean,
) {
  const events = fc
    .array(
      fc.oneof(
        { weight: 3, arbitrary: fc.constantFrom(...good.events) },
        { weight: 2, arbitrary: fc.constantFrom(...good.events).chain(spoilt) },
        { weight: 1, arbitrary: hostileValue.map(value => `data: ${value}\n\n`) },
        {
          weight: 1,
          arbitrary: fc.constantFrom(
            ': comment\n\n',
            '\n\n\n',
            'data:\n\n',
            'event: error\ndata: x\n\n',
            'data: [DONE]\n\n',
          ),
        },
      ),
      { maxLength: 30 },
    )
    .map(list => list.join(''))
  const body = damaged(isStream ? events : spoilt(good.whole))
  const types = isStream
    ? ['text/event-stream', 'text/event-stream', 'text/event-stream', 'application/json', 'text/html']
    : ['application/json', 'application/json', 'application/json', 'text/event-stream', 'text/html']
  return fc
    .record({
      body,
      status: fc.constantFrom(200, 200, 200, 200, 200, 200, 201, 204, 302, 400, 500, 503),
      type: fc.constantFrom(...types),
      size: fc.constantFrom(1, 7, 1_000, 100_000),
      isCut: fc.nat({ max: 9 }).map(chance => chance === 0),
    })
    .map(({ body: bytes, size, ...rest }): HostileAnswer => ({ ...rest, pieces: chunked(bytes, size) }))
}
