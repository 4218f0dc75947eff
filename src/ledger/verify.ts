import {
  type ChainFields,
  type ChainHead,
  type ChainKey,
  GENESIS,
  headMac,
  link,
  unkeyedLink,
} from '../domain/chain.ts'

type ChainSource<Row extends Link> = {
  readonly name: string
  /** The current last link; other processes may append while the chain is verified. */
  head(): Promise<(ChainHead & { readonly mac: string }) | undefined>
  after(seq: number, limit: number): Promise<readonly Row[]>
  fieldsOf(row: Row): ChainFields
  /** Records that were written before chains had a key may have fewer fields. */
  unkeyedFieldsOf(row: Row): ChainFields
  /** Whether the record claims to be the first keyed one, after unkeyed ones. */
  isFirstKeyed(row: Row): boolean
}
type Each<Row> = (row: Row, isKeyed: boolean) => void
type Link = { readonly seq: number; readonly hash: string }

export type ChainReport = {
  readonly chain: string
  readonly links: number
  /** The number of links at the start that were written before the upgrade and were checked without a key. */
  readonly unkeyed: number
  readonly fault: string | undefined
}

const BATCH = 1_000

/** Verifies a chain from its first link to its head. A further call verifies the links that were added since. */
export function createChainVerifier<Row extends Link>(source: ChainSource<Row>, key: ChainKey) {
  let seq = 0
  let hash = GENESIS
  let unkeyed = 0
  let isKeyed = false
  // Smaller than every sequence number, so that a record inserted before the first one is read too.
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

  async function verifyLinks(each: Each<Row>): Promise<string | undefined> {
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
    // Records after the head were appended during the verification, and the head moved with them. Otherwise they are forged.
    const isCovered = seq === head.seq || seq <= ((await source.head())?.seq ?? 0)
    if (hashAtHead !== head.hash || !isCovered) return "the chain's head does not match its last record"
    if (seq > 0 && !isKeyed) return 'none of its records is under the chain key'
    if (head.mac !== headMac(key, head))
      return "the chain's head was changed: records were removed from its end, or the node's position was moved"
    return undefined
  }

  return async function verifyNewLinks(each: Each<Row> = () => {}): Promise<ChainReport> {
    const fault = await verifyLinks(each)
    return { chain: source.name, links: seq, unkeyed, fault }
  }
}

/** Verifies a chain and reports the first link that does not follow from the one before. */
export const verifyChain = <Row extends Link>(
  source: ChainSource<Row>,
  key: ChainKey,
  each?: Each<Row>,
): Promise<ChainReport> => createChainVerifier(source, key)(each)
