import { createHmac, hash } from 'node:crypto'

/** What the first link of every chain follows. */
export const GENESIS = '0'.repeat(64)

export type ChainFields = readonly (string | number | null)[]

/** Random bytes, sealed in the store under the master secret, and the HMAC-SHA-256 under them. */
export type ChainKey = { readonly bytes: Buffer; mac(text: string): string }

const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
/** Nearly every text is shorter; longer ones are not worth memory that stays. */
const MOST_CHARACTERS = 4_096
const BYTES_A_CHARACTER = 3

function padded(bytes: Buffer, pad: number, room: number): Buffer {
  const buffer = Buffer.alloc(BLOCK_BYTES + room)
  for (let index = 0; index < BLOCK_BYTES; index++) buffer[index] = (bytes[index] ?? 0) ^ pad
  return buffer
}

/**
 * HMAC as RFC 2104 writes it, of two plain hashes. `createHmac` makes an object for every call, which takes three times as
 * long, and a link is made for every request.
 */
export function createChainKey(bytes: Buffer): ChainKey {
  const inner = padded(bytes, 0x36, MOST_CHARACTERS * BYTES_A_CHARACTER)
  const outer = padded(bytes, 0x5c, DIGEST_BYTES)
  return {
    bytes,
    mac(text) {
      if (text.length > MOST_CHARACTERS) return createHmac('sha256', bytes).update(text).digest('hex')
      const end = BLOCK_BYTES + inner.write(text, BLOCK_BYTES, 'utf8')
      outer.write(hash('sha256', inner.subarray(0, end), 'latin1'), BLOCK_BYTES, 'latin1')
      return hash('sha256', outer, 'hex')
    },
  }
}

/** A link from before chains had a key: the digest of the link before it and of the record's fields, in a fixed order. */
export const unkeyedLink = (previous: string, fields: ChainFields) =>
  hash('sha256', previous + JSON.stringify(fields), 'hex')

/**
 * A link of a hash chain: a keyed digest of the link before it and of the record's fields. A record that is changed,
 * removed or inserted breaks every link after it, and without the key no other link can be computed.
 */
export const link = (key: ChainKey, previous: string, fields: ChainFields) =>
  key.mac(previous + JSON.stringify(fields))

export type ChainHead = {
  readonly name: string
  readonly seq: number
  readonly hash: string
  /** How far the journal of the chain's node has been applied; 0 for chains without a journal. */
  readonly position: number
  /** Where in that journal the oldest request began that had not ended by then; 0 likewise. */
  readonly oldestOpen: number
}

/**
 * Proves which link is the last one. The link itself cannot: cutting off the end of a chain leaves a valid link
 * before the cut. The first word keeps these digests apart from those of links, which begin with 64 hex digits.
 */
export const headMac = (key: ChainKey, { name, seq, hash, position, oldestOpen }: ChainHead) =>
  key.mac(`head ${JSON.stringify([name, seq, hash, position, oldestOpen])}`)

/** A keyed digest of a row, by which an audit record says how its change left the row. */
export const rowMac = (key: ChainKey, name: string, fields: ChainFields) =>
  key.mac(`row ${JSON.stringify([name, ...fields])}`)

export const anchorMac = (key: ChainKey, text: string) => key.mac(`anchor ${text}`)
