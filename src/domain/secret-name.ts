import { isObject, type JsonObject } from './json-object.ts'
import { mask } from './text.ts'

const SECRET = /(?:^|-)(?:auth|key|token|cookie2?|password|passwd|credential)s?$|authorization|secret|apikey/
/** Ends like a credential and is none: a client makes it up for each request. */
const OPEN = new Set(['idempotency-key'])

/** Whether something of this name, a header or a field, is to be kept from whoever may only look. */
export function isSecretName(name: string): boolean {
  const plain = name
    .replace(/([a-z])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .replaceAll('_', '-')
  return SECRET.test(plain) && !OPEN.has(plain)
}

const PLACEHOLDER = /\{(?:api_key|client_header:[^{}]*)\}/g
const SCHEME = /^\s*(?:bearer|basic|token|key|apikey)?[\s=:]*$/i

/** A value that is filled in when a request is sent holds no secret itself: `Bearer {api_key}`. */
export const isOnlyPlaceholders = (value: string) => SCHEME.test(value.replace(PLACEHOLDER, ''))

/** A password inside an address, whatever the address is called. */
const HAS_PASSWORD = /\/\/[^/\s@]*:[^/\s@]+@/

/** A credential by its scheme, whatever its header is called. */
const HAS_SCHEME = /^\s*(?:bearer|basic)\s+\S/i

/** Whether a value is masked wherever it is shown. */
export const isMaskedValue = (name: string, value: unknown): value is string =>
  typeof value === 'string' &&
  (((isSecretName(name) || HAS_SCHEME.test(value)) && !isOnlyPlaceholders(value)) || HAS_PASSWORD.test(value))

/** The same object with what looks like a secret masked, at any depth. */
export function maskSecrets(object: JsonObject): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(object).map(([name, value]) => {
      if (isObject(value)) return [name, maskSecrets(value)]
      return [name, isMaskedValue(name, value) ? mask(value) : value]
    }),
  )
}

/** Undoes `maskSecrets` with what is stored, so that an object which was read can be sent back as it is. */
export function unmaskSecrets(given: JsonObject, stored: unknown): Record<string, unknown> {
  const known = isObject(stored) ? stored : {}
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => {
      const before = Object.hasOwn(known, name) ? known[name] : undefined
      if (isObject(value)) return [name, unmaskSecrets(value, before)]
      return [name, isMaskedValue(name, before) && value === mask(before) ? before : value]
    }),
  )
}

/** The first name whose value is masked still: what was masked is not what is stored. */
export function stillMasked(object: JsonObject, path: string): string | undefined {
  for (const [name, value] of Object.entries(object)) {
    const at = `${path}.${name.slice(0, 100)}`
    const found = isObject(value) ? stillMasked(value, at) : undefined
    if (found !== undefined) return found
    if (typeof value === 'string' && value.includes('…') && isMaskedValue(name, value)) return at
  }
  return undefined
}
