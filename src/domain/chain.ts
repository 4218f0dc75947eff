/** The hash before the first link of every chain. */
export const GENESIS = '0'.repeat(64)

export type ChainFields = readonly (string | number | null)[]

/** The key of the hash chains: random, and stored encrypted under the master secret. `mac` is HMAC-SHA-256. */
export type ChainKey = { readonly bytes: Buffer; mac(text: string): string }

/**
 * Loaded with the first key, and not with this file: it takes 15 ms of the start of SQLite's thread, which needs it only when requests
 * are settled.
 */
const loadCrypto = () => process.getBuiltinModule('node:crypto')

const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
/** The capacity of the reused buffer. Longer texts are rare and take a slower path. */
const MAX_CHARACTERS = 4_096
const BYTES_PER_CHARACTER = 3

function padded(bytes: Buffer, pad: number, room: number): Buffer {
  const buffer = Buffer.alloc(BLOCK_BYTES + room)
  for (let index = 0; index < BLOCK_BYTES; index++) buffer[index] = (bytes[index] ?? 0) ^ pad
  return buffer
}

/**
 * HMAC (RFC 2104) as two plain hashes. `createHmac` allocates an object for every call and takes three times as long, and
 * every request adds a link.
 */
export function createChainKey(bytes: Buffer): ChainKey {
  const { createHmac, hash } = loadCrypto()
  const inner = padded(bytes, 0x36, MAX_CHARACTERS * BYTES_PER_CHARACTER)
  const outer = padded(bytes, 0x5c, DIGEST_BYTES)
  return {
    bytes,
    mac(text) {
      if (text.length > MAX_CHARACTERS) return createHmac('sha256', bytes).update(text).digest('hex')
      const end = BLOCK_BYTES + inner.write(text, BLOCK_BYTES, 'utf8')
      outer.write(hash('sha256', inner.subarray(0, end), 'latin1'), BLOCK_BYTES, 'latin1')
      return hash('sha256', outer, 'hex')
    },
  }
}

/** A link written before chains had a key: a plain digest of the previous link and of the record's fields. */
export const unkeyedLink = (previous: string, fields: ChainFields) =>
  loadCrypto().hash('sha256', previous + JSON.stringify(fields), 'hex')

/**
 * A link of a hash chain: a keyed digest of the previous link and of the record's fields. Changing, removing or inserting a
 * record breaks every link after it, and without the key no valid link can be computed.
 */
export const link = (key: ChainKey, previous: string, fields: ChainFields) =>
  key.mac(previous + JSON.stringify(fields))

export type ChainHead = {
  readonly name: string
  readonly seq: number
  readonly hash: string
  /** The last applied record of the node's journal; 0 for chains without a journal. */
  readonly position: number
  /** The journal record of the oldest request that was still open then; 0 for chains without a journal. */
  readonly oldestOpen: number
}

/**
 * Proves which link is the last one. The link itself cannot: a truncated chain still ends with a valid link. The prefix
 * separates these digests from those of links, which begin with 64 hex digits.
 */
export const headMac = (key: ChainKey, { name, seq, hash, position, oldestOpen }: ChainHead) =>
  key.mac(`head ${JSON.stringify([name, seq, hash, position, oldestOpen])}`)

/** A keyed digest of a row. An audit record stores it as the state of the row after the change. */
export const rowMac = (key: ChainKey, name: string, fields: ChainFields) =>
  key.mac(`row ${JSON.stringify([name, ...fields])}`)

/** For messages between the nodes of a fleet. */
export const messageMac = (key: ChainKey, text: string) => key.mac(`message ${text}`)

export const anchorMac = (key: ChainKey, text: string) => key.mac(`anchor ${text}`)
