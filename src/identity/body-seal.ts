import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { SealError } from './keyring.ts'

const NONCE_BYTES = 12
const TAG_BYTES = 16
/** The first byte of a sealed body: its format. */
const VERSION = 1

/** Random nonces are generated together: each call costs as much as the encryption of a kilobyte. */
const NONCES_AT_ONCE = 256

function createNonces() {
  let pool = Buffer.alloc(0)
  return (): Buffer => {
    if (pool.length === 0) pool = randomBytes(NONCE_BYTES * NONCES_AT_ONCE)
    const nonce = pool.subarray(0, NONCE_BYTES)
    pool = pool.subarray(NONCE_BYTES)
    return nonce
  }
}

export const sealedLength = (textLength: number): number => 1 + NONCE_BYTES + textLength + TAG_BYTES

/** Binds the ciphertext to its row, so that the bodies of two requests cannot be exchanged. */
const associatedData = (place: string) => Buffer.from(`${place}|${VERSION}`)

/**
 * Encrypts bodies with AES-256-GCM under a key of their own. The keyring encrypts only that key, so a rotation of the
 * master secret does not rewrite the bodies.
 */
export function createBodySeal(key: Buffer) {
  const nextNonce = createNonces()

  /** Writes the sealed text to the target. Returns its end. */
  function sealTo(target: Buffer, start: number, place: string, text: Buffer): number {
    const nonce = nextNonce()
    const cipher = createCipheriv('aes-256-gcm', key, nonce)
    cipher.setAAD(associatedData(place))
    // One call: each costs more than the encryption of a kilobyte.
    const encrypted = cipher.update(text)
    cipher.final()
    target[start] = VERSION
    let end = start + 1
    end += nonce.copy(target, end)
    end += encrypted.copy(target, end)
    return end + cipher.getAuthTag().copy(target, end)
  }

  function seal(place: string, text: Buffer): Buffer {
    const sealed = Buffer.allocUnsafe(sealedLength(text.length))
    sealTo(sealed, 0, place, text)
    return sealed
  }

  function open(place: string, sealed: Uint8Array): Buffer {
    const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength)
    if (bytes.length < sealedLength(0) || bytes[0] !== VERSION)
      throw new SealError(`${place} is not a sealed body`)
    const nonce = bytes.subarray(1, 1 + NONCE_BYTES)
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
    decipher.setAAD(associatedData(place))
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
    try {
      return Buffer.concat([decipher.update(bytes.subarray(1 + NONCE_BYTES, -TAG_BYTES)), decipher.final()])
    } catch {
      throw new SealError(`${place} was changed or moved since it was sealed`)
    }
  }

  return { seal, sealTo, open }
}

export type BodySeal = ReturnType<typeof createBodySeal>

/** The place that the request of a saved test is bound to. */
export const testPlace = (id: number) => `saved_tests|${id}`

/** The place that a body in a row of its own is bound to. */
export const bodyPlace = (requestId: string) => `bodies|${requestId}`

/** The place that a page of bodies is bound to. The owner is a part of it: the bodies of a page cannot be given to another user. */
export const pagePlace = ({ id, user_id }: { readonly id: string; readonly user_id: number }) =>
  `body_pages|${id}|${user_id}`
