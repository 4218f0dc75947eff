import { GENESIS, link } from '../domain/chain.ts'

type Fields = readonly (string | number | null)[]
export type ChainSource<Row extends Link> = {
  readonly name: string
  readonly head: { readonly seq: number; readonly hash: string }
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
  let seq = 0
  let hash = GENESIS
  for (;;) {
    const rows = await source.after(seq, BATCH)
    for (const row of rows) {
      if (row.seq !== seq + 1) return report(seq, `record ${seq + 1} is missing`)
      if (row.hash !== link(hash, source.fieldsOf(row))) return report(seq, `record ${row.seq} was changed`)
      each(row)
      seq = row.seq
      hash = row.hash
    }
    if (rows.length < BATCH) break
  }
  if (seq < source.head.seq)
    return report(seq, `records after ${seq} are missing, the chain's head is ${source.head.seq}`)
  if (hash !== source.head.hash) return report(seq, "the chain's head does not match its last record")
  return report(seq)
}
