import { isObject, type JsonObject } from './json-object.ts'
import { mask } from './text.ts'

const SECRET = /(?:^|-)(?:auth|key|token|cookie2?|password|passwd|credential)s?$|authorization|secret|apikey/
/** Names that look like credentials but hold random values of the client. */
const OPEN = new Set(['idempotency-key'])

/** Whether a header or field of this name holds a secret, which is masked for viewers. */
export function isSecretName(name: string): boolean {
  const plain = name
    .replace(/([a-z])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .replaceAll('_', '-')
  return SECRET.test(plain) && !OPEN.has(plain)
}

const PLACEHOLDER = /\{(?:api_key|client_header:[^{}]*)\}/g
const SCHEME = /^\s*(?:bearer|basic|token|key|apikey)?[\s=:]*$/i

/** A value that consists of placeholders holds no secret itself: `Bearer {api_key}`. */
export const isOnlyPlaceholders = (value: string) => SCHEME.test(value.replace(PLACEHOLDER, ''))

/** Credentials in a URL, in a field of any name: a password, or a user name that may be a token. */
const HAS_CREDENTIALS = /\/\/[^/\s:]*:[^/\s]*@|\b[a-z][a-z0-9+.-]{0,30}:\/\/[^/\s?#]+@/i
/** Up to the last `@`: a password may contain others, and URL parsers accept that. */
const CREDENTIALS = /\/\/[^/\s]*@/g

/** A credential by its scheme, in a header of any name. */
const HAS_SCHEME = /^\s*(?:bearer|basic)\s+\S/i

/** Whether a value is masked in every response. */
export const isMaskedValue = (name: string, value: unknown): value is string =>
  typeof value === 'string' &&
  (((isSecretName(name) || HAS_SCHEME.test(value)) && !isOnlyPlaceholders(value)) ||
    HAS_CREDENTIALS.test(value))

/** A value as responses show it. Of a URL with credentials, the rest stays visible. */
export function maskedForm(name: string, value: string): string {
  if (!isMaskedValue(name, value)) return value
  const isUrl = HAS_CREDENTIALS.test(value) && !isSecretName(name) && !HAS_SCHEME.test(value)
  return isUrl ? value.replace(CREDENTIALS, '//…@') : mask(value)
}

/** The same object with all secrets masked, at any depth. */
export function maskSecrets(object: JsonObject): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(object).map(([name, value]) => {
      if (isObject(value)) return [name, maskSecrets(value)]
      return [name, typeof value === 'string' ? maskedForm(name, value) : value]
    }),
  )
}

/** Replaces masked values with the stored ones, so that a client can send back an object as it read it. */
export function unmaskSecrets(object: JsonObject, stored: unknown): Record<string, unknown> {
  const storedObject = isObject(stored) ? stored : {}
  return Object.fromEntries(
    Object.entries(object).map(([name, value]) => {
      const before = Object.hasOwn(storedObject, name) ? storedObject[name] : undefined
      if (isObject(value)) return [name, unmaskSecrets(value, before)]
      return [name, isMaskedValue(name, before) && value === maskedForm(name, before) ? before : value]
    }),
  )
}

/** The path of the first value that is still masked, because it does not match the stored value. */
export function firstMaskedPath(object: JsonObject, path: string): string | undefined {
  for (const [name, value] of Object.entries(object)) {
    const at = `${path}.${name.slice(0, 100)}`
    const inner = isObject(value) ? firstMaskedPath(value, at) : undefined
    if (inner !== undefined) return inner
    if (typeof value === 'string' && value.includes('…') && isMaskedValue(name, value)) return at
  }
  return undefined
}
