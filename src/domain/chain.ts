import { createHmac, hash } from 'node:crypto'

/** What the first link of every chain follows. */
export const GENESIS = '0'.repeat(64)

export type Fields = readonly (string | number | null)[]

/** 32 random bytes, sealed in the store under the master secret. */
export type ChainKey = Buffer

/** A link from before chains had a key: the digest of the link before it and of the record's fields, in a fixed order. */
export const unkeyedLink = (previous: string, fields: Fields) =>
  hash('sha256', previous + JSON.stringify(fields), 'hex')

const mac = (key: ChainKey, text: string) => createHmac('sha256', key).update(text).digest('hex')

/**
 * A link of a hash chain: a keyed digest of the link before it and of the record's fields. A record that is changed,
 * removed or inserted breaks every link after it, and without the key no other link can be computed.
 */
export const link = (key: ChainKey, previous: string, fields: Fields) =>
  mac(key, previous + JSON.stringify(fields))

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
 * Proves which link is the last one. The link itself cannot: whoever cuts off the end of a chain finds a valid link
 * before the cut. The first word keeps these digests apart from those of links, which begin with 64 hex digits.
 */
export const headMac = (key: ChainKey, { name, seq, hash, position, oldestOpen }: ChainHead) =>
  mac(key, `head ${JSON.stringify([name, seq, hash, position, oldestOpen])}`)

/** A keyed digest of a row, by which an audit record says how its change left the row. */
export const rowMac = (key: ChainKey, name: string, fields: Fields) =>
  mac(key, `row ${JSON.stringify([name, ...fields])}`)

export const anchorMac = (key: ChainKey, text: string) => mac(key, `anchor ${text}`)
