import type { Anchor, AnchorHead } from './anchor.ts'

/** An anchored head with the time and the place of its anchor. */
export type IndexedHead = AnchorHead & { readonly time: number; readonly from: string }

/** Anchored heads by chain and sequence number, for comparison while the chains are verified. */
export function createAnchorIndex() {
  const chains = new Map<string, Map<number, IndexedHead[]>>()
  const mismatches: IndexedHead[] = []
  let count = 0

  return {
    add({ heads, time }: Anchor, from: string): void {
      for (const head of heads) {
        // An empty chain has nothing to compare.
        if (head.seq === 0) continue
        count += 1
        const places = chains.get(head.chain) ?? new Map<number, IndexedHead[]>()
        chains.set(head.chain, places)
        const existing = places.get(head.seq) ?? []
        if (existing.some(({ hash }) => hash === head.hash)) continue
        places.set(head.seq, [...existing, { ...head, time, from }])
      }
    },
    /** Compares a record with the anchored heads of its sequence number. */
    compare(chain: string, { seq, hash }: { readonly seq: number; readonly hash: string }): void {
      const places = chains.get(chain)
      const anchored = places?.get(seq)
      if (!anchored) return
      places?.delete(seq)
      mismatches.push(...anchored.filter(head => head.hash !== hash))
    },
    /** Anchored heads whose record has another hash now. */
    mismatches: (): readonly IndexedHead[] => mismatches,
    /** Anchored heads of a chain that no record has been compared with. */
    unmatched: (chain: string): IndexedHead[] => [...(chains.get(chain)?.values() ?? [])].flat(),
    chains: () => [...chains.keys()],
    count: () => count,
  }
}
