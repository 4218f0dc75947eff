import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { JsonError } from '../../src/wire/json.ts'
import { parseBounded } from '../../src/wire/json-bounds.ts'
import { createJsonProgress } from '../../src/wire/json-progress.ts'
import { fc } from '../support/properties.ts'

/** Strings longer than what is read character by character, with escapes at any position. */
const longText = fc
  .array(fc.constantFrom('a'.repeat(70), '\\', '"', '\\"', '\n', 'é', '{', ']'), { maxLength: 12 })
  .map(pieces => pieces.join(''))
const value = fc.letrec(tie => ({
  value: fc.oneof(
    { maxDepth: 3 },
    longText,
    fc.integer(),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(longText, tie('value'), { maxKeys: 3 }),
  ),
})).value

describe('the progress of a JSON value that arrives in chunks', () => {
  it('is complete at its end and not before, for any chunks', () => {
    fc.assert(
      fc.property(value, fc.integer({ min: 1, max: 100 }), (each, size) => {
        const text = JSON.stringify({ each })
        const progress = createJsonProgress()
        for (let from = 0; from < text.length; from += size) {
          assert.equal(progress.isWhole(), false)
          progress.push(text.slice(from, from + size))
        }
        assert.equal(progress.isWhole(), true)
      }),
    )
  })
})

describe('JSON that is parsed in one call', () => {
  it('has the value that was written', () => {
    fc.assert(
      fc.property(value, each =>
        assert.deepEqual(parseBounded(JSON.stringify(each)), JSON.parse(JSON.stringify(each))),
      ),
    )
  })

  const refused = (text: string, reason: RegExp) =>
    assert.throws(
      () => parseBounded(text),
      error => error instanceof JsonError && reason.test(error.message),
    )

  it('is refused if its structure would stall the parser, and not for the same characters in a string', () => {
    const names = Array.from({ length: 20_000 }, (_, i) => `"name ${i}":1`).join(',')
    refused(`{${names}}`, /different names/)
    refused('['.repeat(200), /nested/)
    refused(`[${'"",'.repeat(60_000)}1]`, /strings/)
    const signs = '{[,:'.repeat(60_000)
    assert.deepEqual(parseBounded(JSON.stringify({ signs })), { signs })
    const same = `[${'{"a":1},'.repeat(30_000)}1]`
    assert.equal((parseBounded(same) as unknown[]).length, 30_001)
  })
})
