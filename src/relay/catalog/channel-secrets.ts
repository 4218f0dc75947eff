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
  /** `setting`, `param_override` and the like. */
  readonly fields: readonly JsonObject[]
}

/** Shorter ones may be words of an answer; what a model writes is not changed for them. */
const LEAST_IN_ANSWER = 16
const MASK = '*'.charCodeAt(0)

const needlesOf = (secrets: readonly string[]) =>
  [...new Set(secrets.flatMap(secret => [secret, JSON.stringify(secret).slice(1, -1)]))]
    .filter(secret => secret.length >= LEAST_IN_ANSWER)
    .map(secret => Buffer.from(secret))

/** Values of other headers may be words, such as the name of a place. */
const secretlyNamed = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => isSecretName(name)))

/** The same bytes with every needle masked. The length stays, because headers have reported it already. */
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

/** What must not come back from a channel's provider, worked out when it is first needed. */
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
    /** For what a provider says of an error. */
    scrub(text: string): string {
      scrub ??= createScrub([
        ...keys.flatMap(secretsOfKey),
        ...secretsOfHeaders(headers),
        ...fields.flatMap(secretsOfFields),
      ])
      return scrub(text)
    },
    /** For an answer in one piece to a request that was sent with this key. */
    maskAnswer: (body: Buffer, key: string) => maskBytes(maskBytes(body, needlesOfKey(key)), headerNeedles()),
    /** For the pieces of a stream: looking for keys in each would cost too much. */
    headerNeedles,
  }
}

export type ChannelSecrets = ReturnType<typeof createChannelSecrets>
