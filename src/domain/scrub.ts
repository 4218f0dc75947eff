import { isObject, type JsonObject } from './json-object.ts'
import { isSecretName } from './secret-name.ts'

/** Shorter secrets are not redacted, because they may occur in any message. */
const MIN_NAMED_LENGTH = 4
/** The minimum length for values whose names do not mark them as secrets, and for parts of a secret. */
const MIN_UNNAMED_LENGTH = 8
const REDACTED = '[redacted]'

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** The encodings in which a provider may repeat a secret: URL, JSON, HTML, base64. */
const formsOf = (secret: string): string[] => [
  secret,
  encodeURIComponent(secret),
  JSON.stringify(secret).slice(1, -1),
  secret.replace(/[&<>"']/g, character => ENTITIES[character] ?? character),
  Buffer.from(secret).toString('base64').replace(/=+$/, ''),
  Buffer.from(secret).toString('base64url'),
]

/**
 * Tokens derived from a key for one request, which are recognized by their shape only. The search takes linear time: a JSON web
 * token begins at no part of a longer word.
 */
const BY_SHAPE =
  /\b(?:(bearer|basic)\s+[\w.~+/=-]{16,}|ya29\.[\w.-]{8,}|(?<!-)eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)/gi

export type Scrub = (text: string) => string

/** Redacts secrets in a text from a provider. */
export function createScrub(secrets: Iterable<string>): Scrub {
  const allForms = [...secrets].filter(secret => secret.length >= MIN_NAMED_LENGTH).flatMap(formsOf)
  // Longest first: redacting a part of a secret would leave the rest unrecognized.
  const forms = [...new Set(allForms)].sort((one, other) => other.length - one.length)
  const hasSecret = (text: string) => {
    for (let index = forms.length - 1; index >= 0; index--) {
      const form = forms[index] as string
      if (form.length > text.length) return false
      if (text.includes(form)) return true
    }
    return false
  }
  return text => {
    let clean = text
    if (hasSecret(text)) for (const form of forms) clean = clean.replaceAll(form, REDACTED)
    return clean.replace(BY_SHAPE, (_whole, scheme?: string) =>
      scheme === undefined ? REDACTED : `${scheme} ${REDACTED}`,
    )
  }
}

const REGION = /^[a-z]{2}(?:-[a-z]+)+-\d$/

const namedSecrets = (object: JsonObject): string[] =>
  Object.entries(object).flatMap(([name, value]) => {
    if (isObject(value)) return namedSecrets(value)
    const isSecret = isSecretName(name) || /private_?key/i.test(name)
    return isSecret && typeof value === 'string' ? [value] : []
  })

function keyFile(key: string): JsonObject | undefined {
  if (!key.startsWith('{')) return undefined
  try {
    const parsed = JSON.parse(key)
    return isObject(parsed) ? parsed : undefined
  } catch {
    // Not JSON: an ordinary key that begins with a brace.
    return undefined
  }
}

/** A provider's key and the secrets inside it, such as the halves of `access|secret` or the private key of a key file. */
export function secretsOfKey(key: string): string[] {
  const file = keyFile(key)
  if (file === undefined) return [key, ...partsOf(key.split(/[|:.\s]/))]
  const secrets = namedSecrets(file)
  return [key, ...secrets, ...partsOf(secrets.flatMap(secret => secret.split('\n')))]
}

const partsOf = (parts: readonly string[]) =>
  parts
    .map(part => part.trim())
    .filter(part => part.length >= MIN_UNNAMED_LENGTH && !REGION.test(part) && !part.startsWith('-----'))

/** Headers whose values are never secret. */
const OPEN_HEADERS: ReadonlySet<string> = new Set([
  'accept',
  'accept-language',
  'anthropic-beta',
  'anthropic-version',
  'content-type',
  'http-referer',
  'openai-beta',
  'referer',
  'user-agent',
  'x-title',
])
const PLACEHOLDER = /\{(?:api_key|client_header:[^{}]*)\}/

/** The password of Basic authentication, decoded from base64. */
const passwordIn = (value: string): string[] => {
  const [, encoded] = /^\s*basic\s+([\w+/=-]+)\s*$/i.exec(value) ?? []
  const pair = encoded === undefined ? '' : Buffer.from(encoded, 'base64').toString('utf8')
  return pair.includes(':') ? [pair, pair.slice(pair.indexOf(':') + 1)] : []
}

const withoutScheme = (value: string) => value.replace(/^\s*\w+\s+/, '')

/** The secrets in the headers that an administrator adds to a channel's requests. Placeholders are no secrets. */
export const secretsOfHeaders = (headers: Readonly<Record<string, string>>): string[] =>
  Object.entries(headers).flatMap(([name, value]) => {
    if (OPEN_HEADERS.has(name.toLowerCase())) return []
    const minLength = isSecretName(name) ? MIN_NAMED_LENGTH : MIN_UNNAMED_LENGTH
    return value
      .split(PLACEHOLDER)
      .flatMap(part => [part.trim(), withoutScheme(part).trim(), ...passwordIn(part)])
      .filter(part => part.length >= minLength && !/^(?:bearer|basic|token)$/i.test(part))
  })

const PASSWORD_IN_URL = /\/\/[^/\s@:]*:([^/\s@]+)@/g

const textsIn = (value: unknown): string[] => {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

/** The secrets in the other fields of a channel: by field name, and passwords in URLs. */
export const secretsOfFields = (fields: JsonObject): string[] => [
  ...namedSecrets(fields),
  ...textsIn(fields).flatMap(text =>
    [...text.matchAll(PASSWORD_IN_URL)].map(([, password = '']) => password),
  ),
]
