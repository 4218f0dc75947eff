/** Which parts of bodies are masked before they are stored (docs/operating/bodies.md: Masks). */
export type MaskRules = {
  readonly keys: boolean
  readonly emails: boolean
  readonly cards: boolean
  /** Names of JSON fields whose texts are masked. */
  readonly fields: readonly string[]
}

/** Texts are Latin-1: one character for each byte, so that a mask needs no decoding. */
export type Mask = (text: string) => string

const MASKED = '[masked]'

/**
 * A key starts here: after no word character. All patterns run in linear time: each starts at the beginning of a word, and
 * words do not overlap.
 */
const START = String.raw`(?<![\w-])`

/** Keys of this gateway, of providers and of other well-known services, and JSON web tokens. */
const KEYS = new RegExp(
  `${START}(?:${[
    String.raw`(?:sk|sat|pk|rk|glpat|xox[abeoprs]|hf|gsk|nvapi|r8|dop_v1|npm|pypi)[-_][\w-]{16,}`,
    String.raw`gh[opsur]_\w{30,}`,
    String.raw`github_pat_\w{30,}`,
    String.raw`AIza[\w-]{30,}`,
    'A[KS]IA[0-9A-Z]{16}',
    String.raw`ya29\.[\w-]{16,}`,
    String.raw`eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*`,
  ].join('|')})`,
  'g',
)
/** Before a token of HTTP authentication. */
const SCHEME = /(?:bearer|basic)\s{1,4}$/i
const MAX_SCHEME = 10
const MIN_KEY = 16

const ALPHANUMERIC = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

/** A table with 1 for each of the characters. */
function tableOf(characters: string): Uint8Array {
  const table = new Uint8Array(256)
  for (const character of characters) table[character.charCodeAt(0)] = 1
  return table
}

/** The characters of keys and tokens. */
const KEY_CHARACTERS = tableOf(`${ALPHANUMERIC}_-.~+/=`)

/** The length of the rest of a JSON escape, such as `n` of `\n`, at the beginning of a word; 0: none. */
function escapeAt(text: string, start: number): number {
  if (text[start - 1] !== '\\') return 0
  return text[start] === 'u' ? 5 : 1
}

function maskWord(text: string, start: number, end: number): string {
  const word = text.slice(start, end)
  const before = text.slice(Math.max(0, start - MAX_SCHEME), start)
  return SCHEME.test(before) ? MASKED : word.replace(KEYS, MASKED)
}

/** Few texts have words as long as a key, and only those are searched: a search of the whole text takes ten times longer. */
const maskKeys: Mask = text => {
  let masked = ''
  let from = 0
  let start = 0
  for (let at = 0; at <= text.length; at++) {
    if (at < text.length && KEY_CHARACTERS[text.charCodeAt(at)] === 1) continue
    if (at - start >= MIN_KEY) {
      const wordStart = start + escapeAt(text, start)
      masked += text.slice(from, wordStart) + maskWord(text, wordStart, at)
      from = at
    }
    start = at + 1
  }
  return from === 0 ? text : masked + text.slice(from)
}

/** 14 to 19 digits of a payment card, perhaps in groups. Its first digit excludes times in milliseconds and microseconds. */
const CARD = /[2-6](?<![\d.].)(?:[ -]?\d){13,18}(?![\d.])/g

/** The check digit of payment cards (Luhn). */
function isCard(digits: string): boolean {
  let sum = 0
  for (let index = 0; index < digits.length; index++) {
    const digit = digits.charCodeAt(digits.length - 1 - index) - 48
    const doubled = index % 2 === 1 ? digit * 2 : digit
    sum += doubled > 9 ? doubled - 9 : doubled
  }
  return sum % 10 === 0
}

/** A quick search: few texts have so many digits in a row. */
const DIGITS = /\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d/

const maskCards: Mask = text => {
  if (!DIGITS.test(text)) return text
  return text.replace(CARD, match => {
    const digits = match.replace(/[ -]/g, '')
    return isCard(digits) ? `${MASKED}${digits.slice(-4)}` : match
  })
}

const LOCAL = tableOf(`${ALPHANUMERIC}_.!#$%&'*+/=?^\`{|}~-`)
const DOMAIN = tableOf(`${ALPHANUMERIC}.-`)
/** `a.io` */
const MIN_DOMAIN = 4
const MAX_LOCAL = 64
const MAX_DOMAIN = 253

/** The start of the address whose `@` is at this position. */
function localStart(text: string, at: number, from: number): number {
  let start = at
  while (start > from && at - start < MAX_LOCAL && LOCAL[text.charCodeAt(start - 1)] === 1) start -= 1
  // The first letter belongs to an escape such as `\n`.
  return start < at ? Math.min(at, start + escapeAt(text, start)) : start
}

function domainEnd(text: string, at: number): number {
  let end = at + 1
  while (end < text.length && end - at <= MAX_DOMAIN && DOMAIN[text.charCodeAt(end)] === 1) end += 1
  while (end > at + 1 && !/[A-Za-z0-9]/.test(text[end - 1] as string)) end -= 1
  return end
}

/** A pattern would start at every letter of a long word. This starts at each `@`. */
const maskEmails: Mask = text => {
  let masked = ''
  let from = 0
  for (let at = text.indexOf('@'); at >= 0; at = text.indexOf('@', at + 1)) {
    const end = domainEnd(text, at)
    if (end - at <= MIN_DOMAIN) continue
    const start = localStart(text, at, from)
    if (start === at || !/\.[A-Za-z]{2,}$/.test(text.slice(Math.max(at, end - 32), end))) continue
    masked += `${text.slice(from, start)}${MASKED}`
    from = end
  }
  return from === 0 ? text : masked + text.slice(from)
}

/**
 * A field in JSON, also in a JSON text inside a JSON text, whose quotes are escaped. A text without an end is masked to the
 * end of the body: the body was cut inside of it.
 */
function fieldMask(names: readonly string[]): Mask {
  const oneOf = names.map(name => RegExp.escape(Buffer.from(name).toString('latin1'))).join('|')
  const plain = new RegExp(`("(?:${oneOf})"\\s{0,8}:\\s{0,8})"(?:[^"\\\\]|\\\\.)*(?:"|\\\\?$)`, 'gi')
  const nested = new RegExp(`(\\\\"(?:${oneOf})\\\\"\\s{0,8}:\\s{0,8})\\\\"[^"\\\\]*(?:\\\\"|\\\\?$)`, 'gi')
  return text => text.replace(plain, `$1"${MASKED}"`).replace(nested, `$1\\"${MASKED}\\"`)
}

export function createMask({ keys, emails, cards, fields }: MaskRules): Mask {
  const masks = [
    ...(fields.length > 0 ? [fieldMask(fields)] : []),
    ...(keys ? [maskKeys] : []),
    ...(emails ? [maskEmails] : []),
    ...(cards ? [maskCards] : []),
  ]
  return text => masks.reduce((masked, mask) => mask(masked), text)
}
