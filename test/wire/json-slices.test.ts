import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { JsonError } from '../../src/wire/json.ts'
import { MAX_PARSED_LENGTH, parseBounded, parsedOrNothing } from '../../src/wire/json-bounds.ts'
import { createJsonScanner, NAMES_ONLY } from '../../src/wire/json-scan.ts'
import { parseInSlices, SLICED_BYTES, scanInSlices, writeInSlices } from '../../src/wire/json-slices.ts'
import { fc } from '../support/properties.ts'

const MB = 1_048_576

/** Whether the scanner accepts a text, in chunks of this size. */
function isTaken(text: string, size: number): boolean {
  const scanner = createJsonScanner({ cutsNumbers: true })
  const bytes = Buffer.from(text)
  try {
    for (let from = 0; from < bytes.length; from += size) scanner.push(bytes.subarray(from, from + size))
    scanner.end()
    return true
  } catch (error) {
    assert.ok(error instanceof JsonError)
    return false
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

describe('the JSON scanner', () => {
  it('accepts what the engine accepts and refuses what the engine refuses', () => {
    const spoilt = fc
      .tuple(
        fc.json(),
        fc.nat(),
        fc.constantFrom('', '{', '}', '[', ']', ',', ':', '"', '0', '-', 'e', '\\', 'null', ' ', '\u0001'),
      )
      .map(([json, at, piece]) => {
        const place = at % (json.length + 1)
        return `${json.slice(0, place)}${piece}${json.slice(piece === '' ? place + 1 : place)}`
      })
    fc.assert(
      fc.property(fc.oneof(fc.json(), spoilt), fc.integer({ min: 1, max: 9 }), (text, size) => {
        assert.equal(isTaken(text, size), isJson(text), text)
      }),
      { numRuns: 3_000 },
    )
  })

  it('accepts the numbers and literals of JSON and no others', () => {
    const texts = ['0', '-0', '1.5', '-1e5', '1E+5', '1e-05', 'true', 'false', 'null', ' [1 , 2] ']
    const others = [
      '',
      '01',
      '1.',
      '.5',
      '-',
      '+1',
      '1e',
      '1e+',
      'tru',
      'truee',
      'nul',
      'NaN',
      '1 2',
      '[1,]',
      '[,1]',
    ]
    others.push(
      '{"a"}',
      '{"a":}',
      '{a:1}',
      '{"a":1,}',
      '{1:2}',
      '[1}',
      '{"a":1]',
      '1]',
      ':1',
      '"\u0009"',
      '[1"a"]',
      '\u000b1',
    )
    for (const text of texts) assert.ok(isTaken(text, 1) && isJson(text), text)
    for (const text of others) assert.ok(!isTaken(text, 1) && !isJson(text), text)
  })

  it('counts the elements of a list of the outermost object', async () => {
    const bytes = Buffer.from('{"a":[[1,2],{"b":[3]},"x",4],"c":{"d":[1,2,3]},"e":[],"f":[1]}')
    const { members: places } = await scanInSlices(bytes, { limits: NAMES_ONLY })
    assert.deepEqual(
      places.map(({ entries }) => entries),
      [4, 0, 0, 1],
    )
  })
})

describe('a document that is parsed in slices', () => {
  const documents: Readonly<Record<string, unknown>> = {
    'a text of megabytes': { a: 'x'.repeat(3 * MB), b: [1, 'y'.repeat(MB)] },
    'a text of escapes': { a: '\u0001"\\é'.repeat(200_000), pad: 'x' },
    'a text of wide characters': { a: 'é漢😀'.repeat(100_000) },
    'a list of numbers': { data: [{ v: Array.from({ length: 100_000 }, (_, i) => i / 7) }, { v: [1, 2] }] },
    'a list of words and numbers': { v: Array.from({ length: 20_000 }, (_, i) => (i % 2 ? null : i)) },
    'nothing but a text': 'z'.repeat(MB),
    'many members': Object.fromEntries(
      Array.from({ length: 5_000 }, (_, i) => [`name ${i}`, 'v'.repeat(i % 90)]),
    ),
  }
  for (const [name, value] of Object.entries(documents))
    it(`has the same value as the engine’s parser: ${name}`, async () => {
      const text = JSON.stringify(value)
      assert.ok(text.length > SLICED_BYTES)
      assert.deepEqual(await parseInSlices(Buffer.from(text)), value)
      assert.equal((await writeInSlices(value)).toString(), text)
    })

  it('has the same value as the engine’s parser, with escapes at any position', async () => {
    for (let pad = 0; pad < 14; pad++) {
      const text = `{"a":"${'x'.repeat(pad)}${'\\\\\\u00e9\\"'.repeat(60_000)}"}`
      assert.deepEqual(await parseInSlices(Buffer.from(text)), JSON.parse(text))
    }
  })

  it('is refused for its depth, its names and its values', async () => {
    const pad = `"pad":"${'x'.repeat(SLICED_BYTES)}"`
    const many = (count: number, piece: (index: number) => string) =>
      Array.from({ length: count }, (_, index) => piece(index)).join(',')
    const refused = (text: string, pattern: RegExp) =>
      assert.rejects(parseInSlices(Buffer.from(text)), pattern)
    await refused(`{${pad},"a":${'['.repeat(129)}${']'.repeat(129)}}`, /deeper than 128/)
    await refused(`{${many(10_001, index => `"name ${index}":1`)}}`, /different names/)
    await refused(`[${many(350_001, () => '{}')}]`, /values/)
    await refused(`{${pad},"a":[1,2}`, /not valid JSON/)
    await refused(`[1,${' '.repeat(9 * MB)}2]`, /besides its long strings/)
  })
})

describe('the part that is parsed in one call', () => {
  it('is limited in depth, length and names', () => {
    const deep = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
    assert.deepEqual(parseBounded('{"a":"[[[\\"[["}'), { a: '[[["[[' })
    assert.ok(Array.isArray(parseBounded(deep(128))))
    assert.throws(() => parseBounded(deep(129)), /deeper than 128/)
    assert.throws(() => parseBounded(`"${'x'.repeat(MAX_PARSED_LENGTH)}"`), /longer than/)
    const names = Array.from({ length: 9_000 }, (_, index) => `"name ${index}":1`)
    assert.throws(() => parseBounded(`{${names}}`), /different names/)
    assert.equal(parsedOrNothing('{"a":'), undefined)
  })
})
