/**
 * The simulator's counting rule, simple enough for tests to compute:
 * a word (a run of letters, digits and underscores of alphabetic scripts) is one token; every other visible
 * character (punctuation, an ideograph, an emoji) is one token; white space belongs to the token after it, and
 * white space at the very end of a text is one token. Hence a text never has more tokens than bytes.
 */
export function countTokens(text: string): number {
  let count = 0
  for (let at = 0; at < text.length; at = endOfToken(text, at)) count += 1
  return count
}

/** The tokens of a text. Concatenated, they are the text. */
export function splitTokens(text: string): readonly string[] {
  const tokens: string[] = []
  for (let at = 0; at < text.length; ) {
    const end = endOfToken(text, at)
    tokens.push(text.slice(at, end))
    at = end
  }
  return tokens
}

function endOfToken(text: string, start: number): number {
  let at = start
  while (at < text.length && isSpace(text.charCodeAt(at))) at += 1
  if (at >= text.length) return at
  if (!isWordUnit(text.charCodeAt(at))) return at + widthAt(text, at)
  while (at < text.length && isWordUnit(text.charCodeAt(at))) at += 1
  return at
}

function isSpace(unit: number): boolean {
  return unit <= 0x20 || unit === 0xa0
}

// U+00C0 to U+1FFF are the alphabetic scripts. Above them are punctuation, symbols and ideographs.
function isWordUnit(unit: number): boolean {
  if (unit < 0x80) {
    const isDigit = unit >= 0x30 && unit <= 0x39
    const isLetter = (unit >= 0x41 && unit <= 0x5a) || (unit >= 0x61 && unit <= 0x7a)
    return isDigit || isLetter || unit === 0x5f
  }
  return unit >= 0xc0 && unit <= 0x1fff
}

// A character beyond the basic plane is two units of a string and must never be cut between two chunks.
function widthAt(text: string, at: number): number {
  const point = text.codePointAt(at)
  return point !== undefined && point > 0xffff ? 2 : 1
}
