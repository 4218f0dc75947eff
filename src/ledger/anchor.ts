import { anchorMac, type ChainKey } from '../domain/chain.ts'
import { isObject } from '../domain/json-object.ts'

export type AnchorHead = { readonly chain: string; readonly seq: number; readonly hash: string }

/**
 * The heads of chains at a moment, authenticated with the chain key and stored outside the store, to detect changes of the
 * store. `previous` is the `mac` of the node's previous anchor, so that a removed anchor is detected.
 */
export type Anchor = {
  /** Unix seconds. */
  readonly time: number
  readonly node: string
  readonly heads: readonly AnchorHead[]
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

const isHead = (head: unknown): head is AnchorHead =>
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

/** Parses a line of an anchor file or of the log; undefined if it has no anchor. */
export function readAnchor(line: string): Anchor | undefined {
  if (!line.includes('"heads"')) return undefined
  try {
    const value: unknown = JSON.parse(line)
    const anchor = isObject(value) && 'anchor' in value ? value.anchor : value
    return isAnchor(anchor) ? anchor : undefined
  } catch {
    // A line that a power cut truncated. The next anchor refers to the last complete one.
    return undefined
  }
}
