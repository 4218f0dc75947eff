import { anchorMac, type ChainKey } from '../domain/chain.ts'
import { isObject } from '../domain/json-object.ts'

export type ChainHead = { readonly chain: string; readonly seq: number; readonly hash: string }

/**
 * Where chains ended at a moment, under the chain key: kept outside the store, for comparison with it.
 * `previous` is the `mac` of the same node's anchor before, so that one that was taken out shows.
 */
export type Anchor = {
  /** Unix seconds. */
  readonly time: number
  readonly node: string
  readonly heads: readonly ChainHead[]
  readonly previous: string
  readonly mac: string
}

type Unsealed = Omit<Anchor, 'mac'>

const macOf = (key: ChainKey, { time, node, heads, previous }: Unsealed) =>
  anchorMac(
    key,
    JSON.stringify([time, node, previous, ...heads.map(({ chain, seq, hash }) => [chain, seq, hash])]),
  )

export const sealAnchor = (key: ChainKey, anchor: Unsealed): Anchor => ({
  ...anchor,
  mac: macOf(key, anchor),
})

export const isGenuine = (key: ChainKey, anchor: Anchor) => anchor.mac === macOf(key, anchor)

const isHead = (head: unknown): head is ChainHead =>
  isObject(head) &&
  typeof head.chain === 'string' &&
  Number.isSafeInteger(head.seq) &&
  typeof head.hash === 'string'

const isAnchor = (value: unknown): value is Anchor =>
  isObject(value) &&
  Number.isSafeInteger(value.time) &&
  typeof value.node === 'string' &&
  typeof value.previous === 'string' &&
  typeof value.mac === 'string' &&
  Array.isArray(value.heads) &&
  value.heads.every(isHead)

/** An anchor as a line of a file, or inside a line of the log; undefined for any other line. */
export function readAnchor(line: string): Anchor | undefined {
  if (!line.includes('"heads"')) return undefined
  try {
    const value: unknown = JSON.parse(line)
    const anchor = isObject(value) && 'anchor' in value ? value.anchor : value
    return isAnchor(anchor) ? anchor : undefined
  } catch {
    // A line that a power cut tore; the next one follows the last whole one.
    return undefined
  }
}
