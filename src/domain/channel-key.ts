import { isObject } from './json-object.ts'
import { hasControlExceptLineBreaks } from './text.ts'

/** The status of one key; the same values as a channel's status. */
export const KEY_STATUS = { enabled: 1, disabled: 2, disabledByGateway: 3 } as const

export const MAX_KEYS = 1_000
export const MAX_KEY_LENGTH = 16_384

/** Keys are sent in headers, or are JSON that the gateway reads. */
const ASCII = /^[\t\n\r\x20-\x7e]*$/

export type KeysRead = { readonly keys: readonly string[] } | { readonly fault: string }

/** What is wrong with a key. The message does not repeat the key. */
export function keyFault(key: string): string | undefined {
  if (key.length > MAX_KEY_LENGTH) return `is longer than ${MAX_KEY_LENGTH} characters`
  if (hasControlExceptLineBreaks(key)) return 'contains control characters'
  if (isObject(parsed(key))) return undefined
  if (isMasked(key)) return 'is masked; send the whole key'
  if (!ASCII.test(key)) return 'contains characters that are not allowed in a header'
  return undefined
}

/**
 * Reads several keys from one text: a JSON array of keys, one JSON object, one JSON object a line, or keys separated by
 * commas or line breaks (docs/reference/management-api.md: Channel keys).
 */
export function readKeys(text: string): KeysRead {
  const parts = partsOf(text.trim())
  if (parts === undefined) return { fault: 'begins like JSON but is neither an array of keys nor an object' }
  const keys = [...new Set(parts.map(part => part.trim()).filter(part => part !== ''))]
  if (keys.length > MAX_KEYS) return { fault: `has ${keys.length} keys; the maximum is ${MAX_KEYS}` }
  for (const [index, key] of keys.entries()) {
    const fault = keyFault(key)
    if (fault !== undefined) return { fault: `contains an invalid key: key ${index + 1} ${fault}` }
  }
  return { keys }
}

function partsOf(text: string): readonly string[] | undefined {
  if (!text.startsWith('{') && !text.startsWith('[')) return text.split(/[,\r\n]/)
  const whole = parsed(text)
  if (Array.isArray(whole)) return entriesOf(whole)
  if (isObject(whole)) return [text]
  const lines = text.split(/[\r\n]+/).filter(line => line.trim() !== '')
  return lines.every(line => isObject(parsed(line))) ? lines : undefined
}

function entriesOf(array: readonly unknown[]): readonly string[] | undefined {
  if (!array.every(entry => typeof entry === 'string' || isObject(entry))) return undefined
  try {
    return array.map(entry => (typeof entry === 'string' ? entry : JSON.stringify(entry)))
  } catch {
    // Nested too deeply to be serialized. No valid key file is.
    return undefined
  }
}

/** Whether a text is the output of `mask`, which a client sends back because it never received the whole key. */
export const isMasked = (text: string) => text.includes('…') && !isObject(parsed(text))

function parsed(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    // Not JSON: callers test for undefined.
    return undefined
  }
}
