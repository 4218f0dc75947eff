import { flatText } from './flat-text.ts'
import { INVALID_VALUE } from './header-lines.ts'

/**
 * The last valid value of a header, and its line once the value was repeated. Most headers have the same value in every message, and
 * comparing it costs a fifth of checking it.
 */
export type WrittenHeader = {
  value: string | undefined
  line: string | undefined
}

/** Requests and responses each keep this many names, and values up to this length: both may forward those that a peer chooses. */
export const MAX_WRITTEN_NAMES = 1_000
const MAX_VALUE_LENGTH = 2_048

/** The line of a header; undefined if the value is invalid. A line break in it would begin another header or another message. */
export function writtenLine(header: WrittenHeader, name: string, value: string): string | undefined {
  if (header.value === value) {
    header.line ??= flatText(`${name}: ${value}\r\n`)
    return header.line
  }
  if (INVALID_VALUE.test(value)) return undefined
  if (value.length <= MAX_VALUE_LENGTH) {
    header.value = value
    header.line = undefined
  }
  return `${name}: ${value}\r\n`
}
