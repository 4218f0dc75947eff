/** The length in code points instead of UTF-16 units. */
export function codePoints(text: string): number {
  let count = 0
  for (const _ of text) count += 1
  return count
}

/** Tab, line feed and carriage return are allowed where a text may have several lines. */
const CONTROL = /\p{Cc}/u
const CONTROL_EXCEPT_LINE_BREAKS = /[^\P{Cc}\t\n\r]/u

export const hasControl = (text: string) => CONTROL.test(text)
export const hasControlExceptLineBreaks = (text: string) => CONTROL_EXCEPT_LINE_BREAKS.test(text)

const TERMINAL_CONTROL = /[^\P{Cc}\t\n]/gu

/** A text for a terminal, on which control characters would be commands. Texts of providers and databases may contain them. */
export const printable = (text: string): string => text.replace(TERMINAL_CONTROL, '\ufffd')

/** Two names are the same name when they fold to the same text (docs/reference/management-api.md: Identity). */
export const fold = (text: string) => text.normalize('NFKC').toLowerCase().toUpperCase().toLowerCase()

/** PostgreSQL stores neither NUL nor half a surrogate pair: both become a replacement character. */
export const storable = (text: string): string =>
  text.isWellFormed() && !text.includes('\0') ? text : text.toWellFormed().replaceAll('\0', '\ufffd')

/** An escape of NUL or of half a surrogate pair. Before it, backslashes come in pairs: each pair is a backslash of the text. */
const UNSTORABLE_ESCAPE = /(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})/g

/** The same for a JSON text that `JSON.stringify` wrote. */
export const storableJson = (json: string): string =>
  json.includes('\\u') ? json.replace(UNSTORABLE_ESCAPE, '$1\\ufffd') : json

/** Masks a secret so that its owner recognizes it: the first and last characters, at most a third of it. */
export function mask(secret: string): string {
  const visibleLength = Math.min(11, Math.floor(secret.length / 3))
  const head = Math.ceil(visibleLength * 0.6)
  const tail = visibleLength - head
  return `${secret.slice(0, head)}…${tail > 0 ? secret.slice(-tail) : ''}`
}
