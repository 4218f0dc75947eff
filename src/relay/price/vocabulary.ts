import { LF, SPACE } from '../../wire/ascii.ts'

/** At least twice the number of tokens, so that most searches end at their first place. */
const INDEX_PLACES = 2 ** 19
const MAX_TOKENS = INDEX_PLACES / 2
const EMPTY = -1
/** The rank of what is no token. */
export const NO_TOKEN = 2 ** 31 - 1

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const BASE64_BITS = 6
const BYTE_BITS = 8
const PADDING = '='.charCodeAt(0)
const ZERO = '0'.charCodeAt(0)

const base64Values = new Uint8Array(256)
for (const [value, digit] of [...BASE64].entries()) base64Values[digit.charCodeAt(0)] = value

/** A place for the bytes [from, to), by FNV-1a. */
function placeOf(bytes: Uint8Array, from: number, to: number): number {
  let hash = 0x811c9dc5
  for (let at = from; at < to; at++) hash = Math.imul(hash ^ (bytes[at] as number), 0x01000193)
  return (hash ^ (hash >>> 15)) & (INDEX_PLACES - 1)
}

/**
 * The tokens of a tokenizer in flat arrays, which take 10 MiB. The vocabulary is that of `gpt-tokenizer`, whose own maps and strings take
 * 54 MiB.
 * `file`: a line for each token, its bytes in base64 and its rank, in the order of ranks.
 */
export class Vocabulary {
  readonly #bytes: Uint8Array
  /** Where the bytes of each token begin, by rank. Those of the next one begin where they end. */
  readonly #starts = new Uint32Array(MAX_TOKENS + 1)
  /** Ranks, each at the place of its bytes or, if that was taken, at the next empty one. */
  readonly #index = new Int32Array(INDEX_PLACES).fill(EMPTY)

  constructor(file: Uint8Array) {
    this.#bytes = new Uint8Array(file.length)
    let at = 0
    for (let rank = 0; at < file.length; rank++) {
      at = this.#readToken(file, at, rank)
      at = mustReadRank(file, at, rank)
      this.#insert(rank)
    }
  }

  /** The rank of the token with the bytes [from, to), or NO_TOKEN. */
  rankOf(piece: Uint8Array, from: number, to: number): number {
    for (let place = placeOf(piece, from, to); ; place = (place + 1) % INDEX_PLACES) {
      const rank = this.#index[place] as number
      if (rank === EMPTY) return NO_TOKEN
      if (this.#isToken(rank, piece, from, to)) return rank
    }
  }

  #isToken(rank: number, piece: Uint8Array, from: number, to: number): boolean {
    const start = this.#starts[rank] as number
    if ((this.#starts[rank + 1] as number) - start !== to - from) return false
    for (let at = from; at < to; at++) if (this.#bytes[start + at - from] !== piece[at]) return false
    return true
  }

  /** Decodes the bytes of a token. `Buffer` takes more than twice as long for 200,000 short texts. Returns where its rank begins. */
  #readToken(file: Uint8Array, start: number, rank: number): number {
    if (rank === MAX_TOKENS) throw new Error(`The vocabulary has more than ${MAX_TOKENS} tokens.`)
    let size = this.#starts[rank] as number
    let at = start
    let value = 0
    let bits = 0
    for (; at < file.length && file[at] !== SPACE; at++) {
      const digit = file[at] as number
      if (digit === PADDING) continue
      value = (value << BASE64_BITS) | (base64Values[digit] as number)
      bits += BASE64_BITS
      if (bits < BYTE_BITS) continue
      bits -= BYTE_BITS
      this.#bytes[size++] = value >> bits
    }
    this.#starts[rank + 1] = size
    return at + 1
  }

  #insert(rank: number): void {
    let place = placeOf(this.#bytes, this.#starts[rank] as number, this.#starts[rank + 1] as number)
    while (this.#index[place] !== EMPTY) place = (place + 1) % INDEX_PLACES
    this.#index[place] = rank
  }
}

/** The rank at the end of a line. Returns where the next line begins. */
function mustReadRank(file: Uint8Array, start: number, rank: number): number {
  let written = 0
  let at = start
  for (; at < file.length && file[at] !== LF; at++) written = written * 10 + (file[at] as number) - ZERO
  if (written !== rank) throw new Error(`The vocabulary has no token of rank ${rank}.`)
  return at + 1
}
