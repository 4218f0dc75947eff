import type { JsonObject } from '../../domain/json-object.ts'
import {
  createScrub,
  type Scrub,
  secretsOfFields,
  secretsOfHeaders,
  secretsOfKey,
} from '../../domain/scrub.ts'
import { isSecretName } from '../../domain/secret-name.ts'

type SecretHolder = {
  readonly keys: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  /** Parsed columns with secrets, such as `setting` and `param_override`. */
  readonly fields: readonly JsonObject[]
}

/** A shorter secret may occur in an answer by chance, so it is not masked there. */
const LEAST_IN_ANSWER = 16
const MASK = '*'.charCodeAt(0)

const needlesOf = (secrets: readonly string[]) =>
  [...new Set(secrets.flatMap(secret => [secret, JSON.stringify(secret).slice(1, -1)]))]
    .filter(secret => secret.length >= LEAST_IN_ANSWER)
    .map(secret => Buffer.from(secret))

/** Other headers may have common words as values, such as a region. */
const secretlyNamed = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => isSecretName(name)))

/** Masks every needle in the bytes. The length stays the same, because the headers already contain it. */
export function maskBytes(bytes: Buffer, needles: readonly Buffer[]): Buffer {
  let masked = bytes
  for (const needle of needles) {
    for (let at = masked.indexOf(needle); at !== -1; at = masked.indexOf(needle, at + needle.length)) {
      if (masked === bytes) masked = Buffer.from(bytes)
      masked.fill(MASK, at, at + needle.length)
    }
  }
  return masked
}

/** The secrets that must not appear in a provider's answers, computed on first use. */
export function createChannelSecrets({ keys, headers, fields }: SecretHolder) {
  let scrub: Scrub | undefined
  let ofHeaders: readonly Buffer[] | undefined
  const ofKeys = new Map<string, readonly Buffer[]>()
  const needlesOfKey = (key: string) => {
    const cached = ofKeys.get(key)
    if (cached) return cached
    const needles = needlesOf(key === '' ? [] : [key])
    ofKeys.set(key, needles)
    return needles
  }
  const headerNeedles = () => {
    ofHeaders ??= needlesOf(secretsOfHeaders(secretlyNamed(headers)))
    return ofHeaders
  }
  return {
    /** For error messages of a provider. */
    scrub(text: string): string {
      scrub ??= createScrub([
        ...keys.flatMap(secretsOfKey),
        ...secretsOfHeaders(headers),
        ...fields.flatMap(secretsOfFields),
      ])
      return scrub(text)
    },
    /** For a non-stream answer to a request that was sent with this key. */
    maskAnswer: (body: Buffer, key: string) => maskBytes(maskBytes(body, needlesOfKey(key)), headerNeedles()),
    /** For the chunks of a stream. Searching each chunk for keys would cost too much. */
    headerNeedles,
  }
}

export type ChannelSecrets = ReturnType<typeof createChannelSecrets>
