import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { tokensFile } from '../../src/host/program-file.ts'
import { createTokenMerge } from '../../src/relay/price/token-merge.ts'
import { NO_TOKEN, Vocabulary } from '../../src/relay/price/vocabulary.ts'
import { fc } from '../support/properties.ts'

const WORDS = [
  'The',
  ' quick',
  ' brown',
  "'ll",
  "N'T",
  ' 你好',
  'naïve',
  '\r\n',
  '  ',
  '123',
  '==',
  '👩‍👧',
  'ก็',
]

/** One byte that is no character, and tokens of it and others. */
const SMALL = ['/w== 0', 'YQ== 1', 'YWE= 2', 'YWFh 3', ''].join('\n')

describe('the vocabulary of a tokenizer', () => {
  it('finds tokens by their bytes', () => {
    const vocabulary = new Vocabulary(Buffer.from(SMALL))
    const bytes = Buffer.from([0xff, ...Buffer.from('aaaa')])
    assert.equal(vocabulary.rankOf(bytes, 0, 1), 0)
    assert.equal(vocabulary.rankOf(bytes, 1, 2), 1)
    assert.equal(vocabulary.rankOf(bytes, 2, 5), 3)
    assert.equal(vocabulary.rankOf(bytes, 1, 5), NO_TOKEN)
    assert.equal(vocabulary.rankOf(bytes, 0, 2), NO_TOKEN)
  })

  it('is refused if a rank is missing', () => {
    assert.throws(() => new Vocabulary(Buffer.from('YQ== 0\nYWE= 2\n')), /no token of rank 1/)
    assert.throws(() => new Vocabulary(Buffer.from('YQ== 0\nYWE=')), /no token of rank 1/)
  })
})

describe('tokens', () => {
  const counted = createTokenMerge(new Vocabulary(readFileSync(tokensFile())))
  const expected = (text: string) => countTokens(text, { disallowedSpecial: new Set() })

  it('are counted as the package of the vocabulary counts them', () => {
    const text = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 40 }),
      fc.string({ unit: 'binary', maxLength: 20 }),
      fc.array(fc.constantFrom(...WORDS), { maxLength: 12 }).map(words => words.join('')),
      // Halves of surrogate pairs too.
      fc.array(fc.nat(0xffff), { maxLength: 8 }).map(units => String.fromCharCode(...units)),
    )
    fc.assert(
      fc.property(text, text => assert.equal(counted(text), expected(text))),
      { numRuns: 5_000 },
    )
  })

  it('are counted in the longest word that is not split', () => {
    for (const text of ['ab'.repeat(1_024), '漢'.repeat(2_048), '\ud83d'.repeat(2_048)])
      assert.equal(counted(text), expected(text))
  })
})
