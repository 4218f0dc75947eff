import { isObject } from './json-object.ts'
import { hasControlBeyondLines } from './text.ts'

/** The same states as a channel's, for each of its keys. */
export const KEY_STATUS = { enabled: 1, disabled: 2, disabledByGateway: 3 } as const

export const MAX_KEYS = 1_000
const MAX_KEY_LENGTH = 16_384

/** Keys travel in headers, or are JSON that is read here. */
const ASCII = /^[\t\n\r\x20-\x7e]*$/

export type KeysRead = { readonly keys: readonly string[] } | { readonly fault: string }

/** What is wrong with a key, in words that do not repeat it. */
export function keyFault(key: string): string | undefined {
  if (key.length > MAX_KEY_LENGTH) return `is longer than ${MAX_KEY_LENGTH} characters`
  if (hasControlBeyondLines(key)) return 'contains control characters'
  if (isObject(parsed(key))) return undefined
  if (isMasked(key)) return 'is masked; send the whole key'
  if (!ASCII.test(key)) return 'contains characters that no header can carry'
  return undefined
}

/**
 * Several keys in one text: a JSON array holds one in each place, a JSON object is one itself, as are objects line by
 * line; anything else has commas or line breaks between (docs/reference/management-api.md: Channel keys).
 */
export function readKeys(text: string): KeysRead {
  const parts = partsOf(text.trim())
  if (parts === undefined) return { fault: 'begins like JSON but is no array of keys and no object' }
  const keys = [...new Set(parts.map(part => part.trim()).filter(part => part !== ''))]
  if (keys.length > MAX_KEYS) return { fault: `holds ${keys.length} keys; at most ${MAX_KEYS} are taken` }
  for (const [index, key] of keys.entries()) {
    const fault = keyFault(key)
    if (fault !== undefined) return { fault: `the key at place ${index + 1} ${fault}` }
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
    // Nested deeper than can be written again; no key file is.
    return undefined
  }
}

/** As `mask` leaves it: what a client sends back that never saw the key. */
export const isMasked = (text: string) => text.includes('…') && !isObject(parsed(text))

function parsed(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    // Not JSON: the caller asks whether it is.
    return undefined
  }
}
