import type { Anchor, ChainHead } from './anchor.ts'

/** A head that was written down at some time, and where that was. */
export type AnchoredHead = ChainHead & { readonly time: number; readonly from: string }

/** Anchored heads by chain and place, to be met while the chains are walked. */
export function createAnchorIndex() {
  const chains = new Map<string, Map<number, AnchoredHead[]>>()
  const different: AnchoredHead[] = []
  let count = 0

  return {
    add({ heads, time }: Anchor, from: string): void {
      for (const head of heads) {
        // A chain without records ends where every chain begins.
        if (head.seq === 0) continue
        count += 1
        const places = chains.get(head.chain) ?? new Map<number, AnchoredHead[]>()
        chains.set(head.chain, places)
        const known = places.get(head.seq) ?? []
        if (known.some(({ hash }) => hash === head.hash)) continue
        places.set(head.seq, [...known, { ...head, time, from }])
      }
    },
    /** Compares a record with what was anchored of its place. */
    meet(chain: string, { seq, hash }: { readonly seq: number; readonly hash: string }): void {
      const places = chains.get(chain)
      const anchored = places?.get(seq)
      if (!anchored) return
      places?.delete(seq)
      different.push(...anchored.filter(head => head.hash !== hash))
    },
    /** Anchored heads whose place has another record now. */
    different: (): readonly AnchoredHead[] => different,
    /** Anchored heads of a chain that no record has been compared with. */
    unmet: (chain: string): AnchoredHead[] => [...(chains.get(chain)?.values() ?? [])].flat(),
    chains: () => [...chains.keys()],
    count: () => count,
  }
}

export type AnchorIndex = ReturnType<typeof createAnchorIndex>
