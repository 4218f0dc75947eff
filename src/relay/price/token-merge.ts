import { O200K_TOKEN_SPLIT_REGEX } from 'gpt-tokenizer/encodingParams/constants'
import { NO_TOKEN, type Vocabulary } from './vocabulary.ts'

/** Merging takes time quadratic in the length of a word. So a text is cut into pieces of at most this length: at a space, or else within a word. */
const PIECE_LENGTH = 2_048
/** Of one unit of a JavaScript string. */
const MAX_UTF8_BYTES = 3

/**
 * Counts the tokens of a text by byte pair encoding. The text is split into words. A word that is not a token is split into
 * bytes. Then neighbours that together are a token are merged, always the pair with the lowest rank first.
 */
export function createTokenMerge(vocabulary: Vocabulary) {
  const encoder = new TextEncoder()
  const word = new Uint8Array(PIECE_LENGTH * MAX_UTF8_BYTES)
  /** Where the parts of the word begin, and after them its end. */
  const starts = new Uint32Array(word.length + 1)
  /** The rank of each part together with the next one. */
  const ranks = new Int32Array(word.length)

  const rankOfPair = (part: number, parts: number) =>
    part + 2 > parts ? NO_TOKEN : vocabulary.rankOf(word, starts[part] as number, starts[part + 2] as number)

  function lowestPair(parts: number): number {
    let lowest = 0
    for (let part = 1; part < parts; part++)
      if ((ranks[part] as number) < (ranks[lowest] as number)) lowest = part
    return lowest
  }

  /** How many tokens the first `length` bytes of `word` are. */
  function merged(length: number): number {
    let parts = length
    for (let part = 0; part <= length; part++) starts[part] = part
    for (let part = 0; part < length; part++) ranks[part] = rankOfPair(part, parts)
    for (;;) {
      const lowest = lowestPair(parts)
      if (ranks[lowest] === NO_TOKEN) return parts
      starts.copyWithin(lowest + 1, lowest + 2, parts + 1)
      ranks.copyWithin(lowest, lowest + 1, parts)
      parts -= 1
      ranks[lowest] = rankOfPair(lowest, parts)
      if (lowest > 0) ranks[lowest - 1] = rankOfPair(lowest - 1, parts)
    }
  }

  function countPiece(text: string): number {
    let tokens = 0
    for (const [match] of text.matchAll(O200K_TOKEN_SPLIT_REGEX)) {
      const { written } = encoder.encodeInto(match, word)
      tokens += vocabulary.rankOf(word, 0, written) === NO_TOKEN ? merged(written) : 1
    }
    return tokens
  }

  return function countTokens(text: string): number {
    let tokens = 0
    let from = 0
    while (from < text.length) {
      const space = text.lastIndexOf(' ', from + PIECE_LENGTH)
      const cut = space > from ? space : from + PIECE_LENGTH
      const end = text.length - from <= PIECE_LENGTH ? text.length : cut
      tokens += countPiece(text.slice(from, end))
      from = end
    }
    return tokens
  }
}
