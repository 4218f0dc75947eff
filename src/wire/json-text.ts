import { BACKSLASH, QUOTE } from './ascii.ts'

/** Longer strings are searched with `indexOf`, which has a high fixed cost and a low cost per byte. */
const SHORT_TEXT = 64

/** The offset of the quote that closes the string whose content starts at `from`; that of the end of the bytes, or one more, without it. */
export function closingQuote(bytes: Buffer, from: number): number {
  let i = from
  while (i < bytes.length) {
    const short = Math.min(i + SHORT_TEXT, bytes.length)
    while (i < short) {
      const byte = bytes[i]
      if (byte === QUOTE) return i
      i += byte === BACKSLASH ? 2 : 1
    }
    const quote = bytes.indexOf(QUOTE, i)
    if (quote === -1) return bytes.length
    if (!isEscaped(bytes, i, quote)) return quote
    i = quote + 1
  }
  return i
}

/** Whether the quote is escaped: an odd number of backslashes precedes it, counted back to `from`. */
function isEscaped(bytes: Buffer, from: number, quote: number): boolean {
  let i = quote - 1
  while (i >= from && bytes[i] === BACKSLASH) i -= 1
  return (quote - 1 - i) % 2 === 1
}
