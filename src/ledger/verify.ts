import { GENESIS, link } from '../domain/chain.ts'

type Fields = readonly (string | number | null)[]
export type ChainSource<Row extends Link> = {
  readonly name: string
  /** The chain's last link as it is now; others may write while the chain is walked. */
  head(): Promise<Link>
  after(seq: number, limit: number): Promise<readonly Row[]>
  fieldsOf(row: Row): Fields
}
type Link = { readonly seq: number; readonly hash: string }

export type ChainReport = {
  readonly chain: string
  readonly links: number
  readonly fault: string | undefined
}

const BATCH = 1_000

/** Walks a chain from its first link to its head and names the first one that does not follow from the one before. */
export async function verifyChain<Row extends Link>(
  source: ChainSource<Row>,
  each: (row: Row) => void = () => {},
): Promise<ChainReport> {
  const report = (links: number, fault?: string) => ({ chain: source.name, links, fault })
  const head = await source.head()
  let seq = 0
  let hash = GENESIS
  let hashAtHead = GENESIS
  for (;;) {
    const rows = await source.after(seq, BATCH)
    for (const row of rows) {
      if (row.seq !== seq + 1) return report(seq, `record ${seq + 1} is missing`)
      if (row.hash !== link(hash, source.fieldsOf(row))) return report(seq, `record ${row.seq} was changed`)
      each(row)
      seq = row.seq
      hash = row.hash
      if (seq === head.seq) hashAtHead = hash
    }
    if (rows.length < BATCH) break
  }
  if (seq < head.seq) return report(seq, `records after ${seq} are missing, the chain's head is ${head.seq}`)
  // Records beyond the first head were written during the walk, and the head has moved with them; or by hand.
  const isCovered = seq === head.seq || seq <= (await source.head()).seq
  if (hashAtHead !== head.hash || !isCovered)
    return report(seq, "the chain's head does not match its last record")
  return report(seq)
}
