/** The states of a number, named after the last byte read. State 0 is before the first byte. */
const NUMBER = { minus: 1, zero: 2, int: 3, dot: 4, fraction: 5, e: 6, sign: 7, exponent: 8 } as const
/** The states from `LETTERS` on: eight for each of the three words. */
const WORDS = ['true', 'false', 'null'] as const
const LETTERS = 16
/** Neither a number nor one of the three words; a final state. */
export const MALFORMED = 255

const WORD_STATES = wordStates()
const WORD_ENDS = new Set<number>([
  NUMBER.zero,
  NUMBER.int,
  NUMBER.fraction,
  NUMBER.exponent,
  ...WORDS.map((word, index) => LETTERS + index * 8 + word.length),
])

/** The next state by state and byte. */
function wordStates(): Uint8Array {
  const states = new Uint8Array(256 * 256).fill(MALFORMED)
  const on = (from: readonly number[], bytes: string, to: number) => {
    for (const state of from) for (const byte of Buffer.from(bytes)) states[state * 256 + byte] = to
  }
  const { minus, zero, int, dot, fraction, e, sign, exponent } = NUMBER
  on([0], '-', minus)
  on([0, minus], '0', zero)
  on([0, minus], '123456789', int)
  on([int], '0123456789', int)
  on([zero, int], '.', dot)
  on([dot, fraction], '0123456789', fraction)
  on([zero, int, fraction], 'eE', e)
  on([e], '+-', sign)
  on([e, sign, exponent], '0123456789', exponent)
  for (const [index, word] of WORDS.entries())
    for (const [place, letter] of [...word].entries())
      on([place === 0 ? 0 : LETTERS + index * 8 + place], letter, LETTERS + index * 8 + place + 1)
  return states
}

/** The state after one more byte of a number or of `true`, `false` or `null`. */
export const nextWordState = (state: number, byte: number): number =>
  WORD_STATES[state * 256 + byte] as number

/** Whether the word may end here. */
export const isWordEnd = (state: number): boolean => WORD_ENDS.has(state)
