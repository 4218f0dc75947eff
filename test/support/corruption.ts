import { fc } from './properties.ts'

/** A body as it is sent, derived from a valid one. */
export type Body = {
  readonly bytes: Buffer
  readonly contentType: string | undefined
  /** Invalid below the level of JSON: no parser may accept it. */
  readonly isBroken: boolean
}

type Path = readonly (string | number)[]
type Json = unknown

/** A placeholder for bytes that JSON.stringify never writes. */
const RAW_MARK = '\u0001raw:'
const raw = (text: string) => `${RAW_MARK}${text}`
const RAW = /"\\u0001raw:((?:[^"\\]|\\.)*)"/g

const RAW_WORDS = [
  '1e400',
  '-1e400',
  '9007199254740993',
  '-9223372036854775809',
  '1'.repeat(400),
  'NaN',
  'Infinity',
  'undefined',
  '01',
  '0x10',
  '.5',
  '+1',
  "'text'",
  '/* nothing */ 1',
  'new Date()',
]

/** Texts that have broken a parser, query, page or shell before. */
export const ODD_TEXTS = [
  "' OR '1'='1",
  "'; DROP TABLE users; --",
  '") UNION SELECT password_hash FROM users --',
  '1; SELECT pg_sleep(10)',
  "admin'/*",
  '\\',
  '\\x00',
  '%',
  '%%%%____',
  '%{jndi:ldap://127.0.0.1/a}',
  '{{7*7}}',
  '<script>alert(1)</script>',
  '../../../../etc/passwd',
  'javascript:alert(1)',
  '$(id)',
  '`id`',
  '=cmd|calc',
  '__proto__',
  'constructor',
  'prototype',
  'hasOwnProperty',
  'toString',
  'null',
  'undefined',
  'NaN',
  'true',
  '-1',
  '0',
  '1e309',
  '٣',
  '１２３',
  'İ',
  'ﬀ',
  '\u202etxet',
  '\ufeff',
  '👩‍👩‍👧‍👦',
  'e\u0301'.repeat(30),
] as const

export const CONTROL_TEXTS = [
  '\u0000',
  'a\u0000b',
  '\u0007',
  'a\nb',
  'a\r\nSet-Cookie: x=1',
  '\u001b[31m',
  '\u007f',
  '\u0085',
  '\ud800',
  'a\udfffb',
  '\udc00\ud800',
] as const

const LENGTHS = [49, 51, 63, 65, 101, 129, 201, 255, 257, 1_025, 5_000, 20_000]

const oddText = fc.oneof(
  fc.constantFrom<string>(...ODD_TEXTS, ...CONTROL_TEXTS),
  fc.constantFrom(...LENGTHS).map(length => 'x'.repeat(length)),
  fc.constantFrom(...LENGTHS.slice(0, 8)).map(length => '🜲'.repeat(length)),
  // Any UTF-16 code units, paired or not.
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 40 })
    .map(units => String.fromCharCode(...units)),
  fc.string({ maxLength: 20 }),
)

const oddNumber = fc.oneof(
  fc.constantFrom(
    -1,
    -0,
    0,
    0.5,
    -0.1,
    1e-7,
    2 ** 31,
    2 ** 53,
    -(2 ** 53),
    2 ** 63,
    2 ** 64,
    1e21,
    1e308,
    -1e308,
    5e-324,
    4_000_000_000_001,
  ),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
  fc.constantFrom(...RAW_WORDS).map(raw),
)

const nested = (depth: number, value: Json): Json => (depth === 0 ? value : [nested(depth - 1, value)])
const nestedObject = (depth: number): Json => (depth === 0 ? {} : { a: nestedObject(depth - 1) })

/** Keys of prototype members are written by hand: an object literal would set the prototype. */
const withKey = (key: string, value: Json): object =>
  JSON.parse(`{${JSON.stringify(key)}:${JSON.stringify(value)}}`)
const ODD_KEYS = ['__proto__', 'constructor', 'prototype', 'toString', '', ' ', 'id', '0', 'a.b', "'; --"]

const oddObject = fc
  .tuple(fc.constantFrom(...ODD_KEYS), fc.oneof(oddText, oddNumber, fc.constantFrom<Json>(null, {}, [])))
  .map(([key, value]) => withKey(key, value))

const TOO_DEEP = [20, 100, 126, 130, 3_000].map(depth => nested(depth, 1))
const TOO_DEEP_OBJECTS = [20, 100, 126, 130].map(nestedObject)
const TOO_MANY = [
  ...[501, 1_001, 2_001].map(length => Array.from({ length }, (_, i) => i + 1)),
  Array.from({ length: 2_001 }, (_, i) => `model-${i}`),
]

const oddValue: fc.Arbitrary<Json> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom<Json>(
      null,
      true,
      false,
      '',
      [],
      {},
      [null],
      [[]],
      [{}],
      'enabled',
      'disabled',
    ),
  },
  { weight: 12, arbitrary: oddText },
  { weight: 10, arbitrary: oddNumber },
  { weight: 4, arbitrary: oddObject },
  { weight: 4, arbitrary: fc.array(fc.oneof(oddText, oddNumber), { maxLength: 5 }) },
  { weight: 2, arbitrary: fc.constantFrom(...TOO_DEEP, ...TOO_DEEP_OBJECTS) },
  { weight: 1, arbitrary: fc.constantFrom<Json>(...TOO_MANY) },
)

function pathsOf(value: Json, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path]
  return [path, ...Object.entries(value).flatMap(([key, inner]) => pathsOf(inner, [...path, key]))]
}

/** A copy with one node replaced by `change`. */
function edited(value: Json, path: Path, change: (node: Json) => Json): Json {
  const [key, ...rest] = path
  if (key === undefined) return change(value)
  // An earlier fault may have removed this place.
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value))
    return value.map((inner, index) => (String(index) === String(key) ? edited(inner, rest, change) : inner))
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, name === key ? edited(inner, rest, change) : inner]),
  )
}

const isObject = (node: Json): node is object =>
  typeof node === 'object' && node !== null && !Array.isArray(node)

const change: fc.Arbitrary<(node: Json) => Json> = fc.oneof(
  { weight: 8, arbitrary: oddValue.map(value => () => value) },
  { weight: 1, arbitrary: fc.constant(() => undefined) },
  { weight: 1, arbitrary: fc.constant((node: Json) => [node]) },
  { weight: 1, arbitrary: fc.constant((node: Json) => ({ value: node })) },
  { weight: 1, arbitrary: fc.constant((node: Json) => JSON.stringify(node)) },
  {
    weight: 1,
    arbitrary: fc.constant((node: Json) => (typeof node === 'number' ? -node : serialize(node).length)),
  },
  {
    weight: 1,
    arbitrary: oddObject.map(extra => (node: Json) => (isObject(node) ? { ...node, ...extra } : extra)),
  },
)

/** JSON text; undefined values are left out, and at the top level yield nothing. */
const serialize = (value: Json) =>
  (JSON.stringify(value) ?? '').replace(RAW, (_whole, text: string) => JSON.parse(`"${text}"`) as string)

/** Bytes that are no longer JSON, changed at a position given by a fraction. */
const BREAKS: readonly ((text: string, at: number) => Buffer)[] = [
  (text, at) => Buffer.from(text.slice(0, Math.max(1, Math.min(at, text.length - 1)))),
  (text, at) =>
    Buffer.concat([Buffer.from(text.slice(0, at)), Buffer.from([0xff, 0xfe]), Buffer.from(text.slice(at))]),
  (text, at) =>
    Buffer.concat([
      Buffer.from(text.slice(0, at)),
      Buffer.from([0xed, 0xa0, 0x80]),
      Buffer.from(text.slice(at)),
    ]),
  (text, at) =>
    Buffer.concat([Buffer.from(text.slice(0, at)), Buffer.from([0xc0, 0x80]), Buffer.from(text.slice(at))]),
  text => Buffer.from(`${text}}`),
  text => Buffer.from(`${text}${text}`),
  text => Buffer.from(`${text};`),
  text => Buffer.from(text, 'utf16le'),
  text => Buffer.from(`\u0000${text}`),
  text => Buffer.from(text.replaceAll('"', "'")),
  text => Buffer.from(`[${'['.repeat(500)}${text}`),
  text => Buffer.from(new URLSearchParams({ body: text }).toString()),
  text => Buffer.from(`--x\r\nContent-Disposition: form-data; name="body"\r\n\r\n${text}\r\n--x--\r\n`),
]

/** The same key twice, the second time with an unusual value: JSON parsers use the last one. */
const repeated = (text: string, key: string, value: Json) =>
  `${text.slice(0, -1)}${text === '{}' ? '' : ','}${JSON.stringify(key)}:${serialize(value)}}`

const contentType = fc.oneof(
  { weight: 20, arbitrary: fc.constant<string | undefined>('application/json') },
  {
    weight: 4,
    arbitrary: fc.constantFrom<string | undefined>(
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/json; charset=utf-16',
      'application/octet-stream',
      'nonsense',
      undefined,
    ),
  },
)

/** Mostly invalid bodies: a valid one with one or two faults in its values, its keys or its bytes. */
export function corrupted(good: object): fc.Arbitrary<Body> {
  const place = fc.constantFrom(...pathsOf(good))
  const wrong = fc
    .array(fc.tuple(place, change), { minLength: 1, maxLength: 2 })
    .map(changes => changes.reduce<Json>((value, [path, apply]) => edited(value, path, apply), good))
  const inValues = fc.tuple(wrong, contentType).map(([value, type]) => ({
    bytes: Buffer.from(serialize(value)),
    contentType: type,
    isBroken: false,
  }))
  const inKeys = fc
    .tuple(fc.constantFrom(...Object.keys(good)), oddValue, contentType)
    .map(([key, value, type]) => ({
      bytes: Buffer.from(repeated(JSON.stringify(good), key, value)),
      contentType: type,
      isBroken: false,
    }))
  const inBytes = fc
    .tuple(fc.constantFrom(...BREAKS), fc.double({ min: 0, max: 1, noNaN: true }), contentType)
    .map(([breakAt, fraction, type]) => {
      const text = JSON.stringify(good)
      return { bytes: breakAt(text, Math.floor(fraction * text.length)), contentType: type, isBroken: true }
    })
  return fc.oneof(
    { weight: 12, arbitrary: inValues },
    { weight: 2, arbitrary: inKeys },
    { weight: 2, arbitrary: inBytes },
  )
}
