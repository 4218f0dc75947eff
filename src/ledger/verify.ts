import {
  type ChainFields,
  type ChainHead,
  type ChainKey,
  GENESIS,
  headMac,
  link,
  unkeyedLink,
} from '../domain/chain.ts'

export type ChainSource<Row extends Link> = {
  readonly name: string
  /** The chain's last link as it is now; others may write while the chain is walked. */
  head(): Promise<(ChainHead & { readonly mac: string }) | undefined>
  after(seq: number, limit: number): Promise<readonly Row[]>
  fieldsOf(row: Row): ChainFields
  /** Records from before chains had a key may have had fewer fields. */
  unkeyedFieldsOf(row: Row): ChainFields
  /** Whether the record claims to be the first one under the key, behind unkeyed ones. */
  isFirstKeyed(row: Row): boolean
}
type Each<Row> = (row: Row, isKeyed: boolean) => void
type Link = { readonly seq: number; readonly hash: string }

export type ChainReport = {
  readonly chain: string
  readonly links: number
  /** How many of them, from the first on, are from before the upgrade and were checked without a key. */
  readonly unkeyed: number
  readonly fault: string | undefined
}

const BATCH = 1_000

/** Walks a chain from its first link to its head; called again, it goes on with what was written since. */
export function createChainWalk<Row extends Link>(source: ChainSource<Row>, key: ChainKey) {
  let seq = 0
  let hash = GENESIS
  let unkeyed = 0
  let isKeyed = false
  // Below every number there is: a record that was slipped in before the first one is met as well.
  let cursor = Number.MIN_SAFE_INTEGER

  function faultOf(row: Row): string | undefined {
    if (row.seq !== seq + 1)
      return row.seq > seq ? `record ${seq + 1} is missing` : `record ${row.seq} is in no place of the chain`
    if (
      row.hash === link(key, hash, source.fieldsOf(row)) &&
      (isKeyed || seq === 0 || source.isFirstKeyed(row))
    )
      isKeyed = true
    else if (isKeyed || row.hash !== unkeyedLink(hash, source.unkeyedFieldsOf(row)))
      return `record ${row.seq} was changed`
    else unkeyed = row.seq
    return undefined
  }

  async function walk(each: Each<Row>): Promise<string | undefined> {
    const head = await source.head()
    if (!head) return 'its head is missing'
    let hashAtHead = seq === head.seq ? hash : undefined
    for (;;) {
      const rows = await source.after(cursor, BATCH)
      for (const row of rows) {
        const fault = faultOf(row)
        if (fault !== undefined) return fault
        each(row, isKeyed)
        seq = row.seq
        cursor = seq
        hash = row.hash
        if (seq === head.seq) hashAtHead = hash
      }
      if (rows.length < BATCH) break
    }
    if (seq < head.seq) return `records after ${seq} are missing, the chain's head is ${head.seq}`
    // Records beyond the first head were written during the walk, and the head has moved with them; or by hand.
    const isCovered = seq === head.seq || seq <= ((await source.head())?.seq ?? 0)
    if (hashAtHead !== head.hash || !isCovered) return "the chain's head does not match its last record"
    if (seq > 0 && !isKeyed) return 'none of its records is under the chain key'
    if (head.mac !== headMac(key, head))
      return "the chain's head was changed: records were removed from its end, or the node's position was moved"
    return undefined
  }

  return async function goOn(each: Each<Row> = () => {}): Promise<ChainReport> {
    const fault = await walk(each)
    return { chain: source.name, links: seq, unkeyed, fault }
  }
}

/** Walks a chain and names the first link that does not follow from the one before. */
export const verifyChain = <Row extends Link>(
  source: ChainSource<Row>,
  key: ChainKey,
  each?: Each<Row>,
): Promise<ChainReport> => createChainWalk(source, key)(each)
