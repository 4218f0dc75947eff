import { closeSync, existsSync, openSync, readSync } from 'node:fs'
import { basename } from 'node:path'
import type { ChainKey } from '../domain/chain.ts'
import { isGenuine } from '../ledger/anchor.ts'
import { olderAnchorFile, readAnchorFile } from '../ledger/anchor-file.ts'
import { createAnchorIndex, type IndexedHead } from '../ledger/anchor-index.ts'
import { CommandError } from './command.ts'
import type { JournalReport } from './journal-thread.ts'

/** Records of a chain whose loss an operator has accepted after a restore. */
export type AcceptedPlaces = { readonly chain: string; readonly from: number; readonly to: number }
export type Acceptance = {
  readonly time: number
  readonly places: readonly AcceptedPlaces[]
  /** Accounts that the restore lost although the journals had entries of them. */
  readonly accounts: readonly string[]
}

export type AnchorSources = {
  readonly key: ChainKey
  /** The gateway's own anchor file; undefined if anchors go to the log. */
  readonly ownFile: string | undefined
  /** A copy from another place. */
  readonly shippedFile: string | undefined
  readonly journals: readonly JournalReport[]
}

const at = (time: number) => new Date(time * 1000).toISOString()

/** Without the copy nothing would be compared, which the operator must not take for a success. */
function mustBeReadable(path: string): void {
  try {
    const file = openSync(path, 'r')
    try {
      readSync(file, Buffer.alloc(1))
    } finally {
      closeSync(file)
    }
  } catch (error) {
    throw new CommandError(`--anchor: ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`)
  }
}

/** Collects all anchors from files and journals, and the faults of those files and journals. */
export async function gatherAnchors({ key, ownFile, shippedFile, journals }: AnchorSources) {
  const index = createAnchorIndex()
  const faults: string[] = []
  const filed = new Set<string>()
  const places: string[] = []

  /** Each line of a node refers to the line before it. The first line may refer to a missing one, because files are rotated. */
  async function takeFile(path: string): Promise<{ hasAnchors: boolean }> {
    const name = basename(path)
    const last = new Map<string, string>()
    let lines = 0
    let hasAnchors = false
    for await (const { line, anchor } of readAnchorFile(path)) {
      hasAnchors = true
      if (!isGenuine(key, anchor)) {
        faults.push(`anchors: line ${line} of ${name} was changed, or is not from this gateway`)
        continue
      }
      const before = last.get(anchor.node)
      if (before !== undefined && before !== anchor.previous)
        faults.push(`anchors: lines are missing before line ${line} of ${name}`)
      last.set(anchor.node, anchor.mac)
      filed.add(anchor.mac)
      index.add(anchor, `line ${line} of ${name}`)
      lines += 1
    }
    places.push(`${name}: ${lines}`)
    return { hasAnchors }
  }

  function takeJournal({ node, anchors }: JournalReport): void {
    let isInFile = false
    for (const { anchor, isFiled } of anchors) {
      if (!isGenuine(key, anchor)) {
        faults.push(`anchors: the journal of ${node} has an anchor that was changed`)
        continue
      }
      index.add(anchor, `the journal of ${node}`)
      // From the first anchor that is in the file, all later ones must be.
      if (filed.has(anchor.mac)) isInFile = true
      else if (isFiled && isInFile)
        faults.push(
          `anchors: ${ownFile} lacks the line of ${at(anchor.time)}, which the journal of ${node} has`,
        )
    }
    if (anchors.length > 0) places.push(`${node}: ${anchors.length}`)
  }

  const older = ownFile && olderAnchorFile(ownFile)
  for (const path of [older, ownFile]) if (path !== undefined && existsSync(path)) await takeFile(path)
  if (shippedFile !== undefined) {
    mustBeReadable(shippedFile)
    const { hasAnchors } = await takeFile(shippedFile)
    if (!hasAnchors)
      throw new CommandError(`--anchor: ${shippedFile} has no anchors, so nothing was compared`)
  }
  const isOwnMissing = ownFile !== undefined && !existsSync(ownFile)
  for (const journal of journals) takeJournal(journal)
  return { index, faults, places, missingFile: isOwnMissing ? ownFile : undefined }
}

export type GatheredAnchors = Awaited<ReturnType<typeof gatherAnchors>>

/** Anchored heads that are not in the store, without those whose loss was accepted. */
export function lostHeads(
  { index }: GatheredAnchors,
  isVerified: (chain: string) => boolean,
  acceptances: readonly Acceptance[],
): IndexedHead[] {
  const isAccepted = ({ chain, seq, time }: IndexedHead) =>
    acceptances.some(
      accepted =>
        time <= accepted.time &&
        accepted.places.some(place => place.chain === chain && place.from <= seq && seq <= place.to),
    )
  const missing = index.chains().filter(isVerified).flatMap(index.unmatched)
  return [...index.mismatches(), ...missing].filter(head => !isAccepted(head))
}

export const placesOf = (heads: readonly IndexedHead[]): AcceptedPlaces[] =>
  [...Map.groupBy(heads, ({ chain }) => chain)].map(([chain, lost]) => ({
    chain,
    from: lost.reduce((least, { seq }) => Math.min(least, seq), Number.MAX_SAFE_INTEGER),
    to: lost.reduce((most, { seq }) => Math.max(most, seq), 0),
  }))

/** One sentence for each chain: where it first differs, or how many records are missing at its end. */
export function describeLost(heads: readonly IndexedHead[], endOf: (chain: string) => number | undefined) {
  return [...Map.groupBy(heads, ({ chain }) => chain)].map(([chain, lost]) => {
    const end = endOf(chain)
    const first = lost.reduce((least, head) => (head.seq < least.seq ? head : least))
    const furthest = lost.reduce((most, head) => (head.seq > most.seq ? head : most))
    const where = ({ time, from }: IndexedHead) => `anchored at ${at(time)} (${from})`
    if (end === undefined)
      return `anchors: ${chain}: the chain is missing; record ${furthest.seq} was ${where(furthest)}`
    return first.seq <= end
      ? `anchors: ${chain}: record ${first.seq} is not the one that was ${where(first)}`
      : `anchors: ${chain}: ${furthest.seq - end} records are missing at its end; record ${furthest.seq} was ${where(furthest)}`
  })
}
