import { createHmac, randomInt } from 'node:crypto'

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
 * Credentials are looked up by a keyed digest of the whole value: the store has no form of them that could be compared by
 * prefix, and a stolen store cannot confirm a leaked credential.
 */
export const createDigest = (key: Buffer) => (credential: string) =>
  createHmac('sha256', key).update(credential).digest('hex')

export type Digest = ReturnType<typeof createDigest>
