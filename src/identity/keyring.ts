import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'

/** The place of a ciphertext. It is bound to that place: moved to another row or field, it cannot be decrypted. */
export type Place = { readonly table: string; readonly row: number | string; readonly field: string }

/** A ciphertext that no secret of the keyring decrypts, or that is in the wrong place. */
export class SealError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'SealError'
  }
}

const NONCE_BYTES = 12
const TAG_BYTES = 16

function deriveKey(secret: string) {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'sluice encryption v1', 32))
  const kid = createHash('sha256').update('sluice key id v1').update(key).digest('hex').slice(0, 8)
  return { kid, key }
}

/** Accepts only the canonical text: base64 has spare bits, so different texts could decode to the same bytes. */
function decode(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.toString('base64url') !== text) throw new SealError('is not base64url')
  return bytes
}

const associatedData = (place: Place, kid: string) =>
  Buffer.from(`${place.table}|${place.row}|${place.field}|${kid}`)

/**
 * Encrypts texts with the newest secret and decrypts those of any secret, with AES-256-GCM.
 * A sealed text has the form `v1.<key id>.<nonce>.<ciphertext and tag>`.
 */
export function createKeyring(initial: readonly string[]) {
  let ring = ringOf(initial)

  const seal = (text: string, place: Place): string => {
    const { kid, key } = ring.newest
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv('aes-256-gcm', key, nonce)
    cipher.setAAD(associatedData(place, kid))
    const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
    return `v1.${kid}.${nonce.toString('base64url')}.${body.toString('base64url')}`
  }

  const open = (sealed: string, place: Place): string => {
    const where = `${place.table}.${place.field} of ${place.row}`
    const [version, kid, nonce, body, ...more] = sealed.split('.')
    if (version !== 'v1' || !kid || !nonce || !body || more.length > 0)
      throw new SealError(`${where} is not a sealed text`)
    const key = ring.byId.get(kid)
    if (!key) throw new SealError(`${where} was sealed with a secret that is not in use`)
    try {
      const bytes = decode(body)
      const decipher = createDecipheriv('aes-256-gcm', key, decode(nonce), { authTagLength: TAG_BYTES })
      decipher.setAAD(associatedData(place, kid))
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
      return Buffer.concat([decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]).toString(
        'utf8',
      )
    } catch {
      throw new SealError(`${where} was changed or moved since it was sealed`)
    }
  }

  return {
    seal,
    open,
    /** The prefix of texts sealed with the newest secret; all others are due for rotation. */
    newestPrefix: () => `v1.${ring.newest.kid}.`,
    size: () => ring.byId.size,
    /** Newest first. They do not show the secrets. */
    secretIds: () => [...ring.byId.keys()],
    /** Replaces all secrets at once, when a rotation adds or retires one. */
    replace(secrets: readonly string[]): void {
      ring = ringOf(secrets)
    },
  }
}

function ringOf(secrets: readonly string[]) {
  const keys = secrets.map(deriveKey)
  const [newest] = keys
  if (!newest) throw new SealError('the keyring is empty')
  return { newest, byId: new Map(keys.map(({ kid, key }) => [kid, key])) }
}

export type Keyring = ReturnType<typeof createKeyring>
