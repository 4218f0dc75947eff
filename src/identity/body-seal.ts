import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { KeptExchange } from '../domain/body-log.ts'
import { SealError } from './keyring.ts'

const NONCE_BYTES = 12
const TAG_BYTES = 16
const LENGTH_BYTES = 4
/** The first byte of a sealed body: its format. */
const VERSION = 1

/** A request and its answer as they are stored. */
export type ExchangeBytes = {
  readonly exchange: KeptExchange
  readonly request: Buffer
  readonly answer: Buffer
}

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

/** Binds the ciphertext to its row, so that the bodies of two requests cannot be exchanged. */
const associatedData = (place: string) => Buffer.from(`${place}|${VERSION}`)

/**
 * Encrypts bodies with AES-256-GCM under a key of their own. The keyring encrypts only that key, so a rotation of the
 * master secret does not rewrite the bodies.
 */
export function createBodySeal(key: Buffer) {
  const nextNonce = createNonces()

  function seal(place: string, text: Buffer): Buffer {
    const nonce = nextNonce()
    const cipher = createCipheriv('aes-256-gcm', key, nonce)
    cipher.setAAD(associatedData(place))
    // One call: each costs more than the encryption of a kilobyte.
    const encrypted = cipher.update(text)
    cipher.final()
    const sealed = Buffer.allocUnsafe(1 + NONCE_BYTES + encrypted.length + TAG_BYTES)
    sealed[0] = VERSION
    nonce.copy(sealed, 1)
    encrypted.copy(sealed, 1 + NONCE_BYTES)
    cipher.getAuthTag().copy(sealed, 1 + NONCE_BYTES + encrypted.length)
    return sealed
  }

  function open(place: string, sealed: Uint8Array): Buffer {
    const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength)
    if (bytes.length < 1 + NONCE_BYTES + TAG_BYTES || bytes[0] !== VERSION)
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

  return {
    seal,
    open,
    /** The length of the description, the description, the request and the answer. */
    sealExchange(place: string, { exchange, request, answer }: ExchangeBytes): Buffer {
      const description = JSON.stringify(exchange)
      const length = Buffer.byteLength(description)
      const start = LENGTH_BYTES + length
      const text = Buffer.allocUnsafe(start + request.length + answer.length)
      text.writeUInt32BE(length)
      text.write(description, LENGTH_BYTES)
      text.set(request, start)
      text.set(answer, start + request.length)
      return seal(place, text)
    },
    openExchange(place: string, sealed: Uint8Array): ExchangeBytes {
      const bytes = open(place, sealed)
      const start = LENGTH_BYTES + bytes.readUInt32BE(0)
      const exchange = JSON.parse(bytes.toString('utf8', LENGTH_BYTES, start)) as KeptExchange
      const middle = start + exchange.request.kept
      return { exchange, request: bytes.subarray(start, middle), answer: bytes.subarray(middle) }
    },
  }
}

export type BodySeal = ReturnType<typeof createBodySeal>

/** The place that the request of a saved test is bound to. */
export const testPlace = (id: number) => `saved_tests|${id}`

/** The place that a body is bound to. */
export const bodyPlace = (requestId: string) => `bodies|${requestId}`
