import { createHmac, hash, randomInt } from 'node:crypto'

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const SECRET_LENGTH = 48

const randomText = (length: number) =>
  Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')

/** The credential of the relay API (docs/reference/relay-api.md: Relay credentials). */
export const newApiKey = () => `sk-${randomText(SECRET_LENGTH)}`
/** The credential of people and scripts on the management API. */
export const newAccessToken = () => `sat-${randomText(SECRET_LENGTH)}`
export const newSessionId = () => randomText(SECRET_LENGTH)
/** The id of a video job (docs/reference/videos.md: Video job object). */
export const newVideoId = () => `video_${randomText(24)}`
export const newPassword = () => randomText(20)

/** API keys differ from access tokens by their prefix, so no look-up is needed. */
export const isApiKey = (credential: string) => credential.startsWith('sk-')

/**
 * The name under which a token is looked up whose value is known only as its SHA-256, because it was imported so. No client
 * can send it: a credential of the relay begins with `sk-`.
 */
export const hashedKeyName = (sha256: string) => `sha256:${sha256}`

/** The digests that a token may be stored under: of its value, or of the value's hash. */
export const tokenDigests = (digest: Digest, value: string): readonly [string, string] => [
  digest(value),
  digest(hashedKeyName(hash('sha256', value, 'hex'))),
]

/** Clients of new-api may leave out `sk-`; its keys have 48 letters and digits. */
const BARE_KEY = /^[A-Za-z0-9]{48}$/

/** The value of a token as it is stored; undefined if the credential is none. */
export const apiKeyOf = (credential: string): string | undefined => {
  if (isApiKey(credential)) return credential
  return BARE_KEY.test(credential) ? `sk-${credential}` : undefined
}

/**
 * Credentials are looked up by a keyed digest of the whole value: the store has no form of them that could be compared by
 * prefix, and a stolen store cannot confirm a leaked credential.
 */
export const createDigest = (key: Buffer) => (credential: string) =>
  createHmac('sha256', key).update(credential).digest('hex')

export type Digest = ReturnType<typeof createDigest>
