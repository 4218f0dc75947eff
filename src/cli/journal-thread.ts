import type { Anchor } from '../ledger/anchor.ts'
import type { AnchorRecord, SettleRecord } from '../ledger/record.ts'
import {
  describeGap,
  type Gap,
  missingSuccessor,
  readSegments,
  type StoredRecord,
  segmentsOf,
} from '../ledger/segments.ts'
import { digestSettlement } from '../ledger/settlement.ts'
import { nodeDirectories } from './backup-file.ts'
import { work } from './thread-work.ts'

/** Reads all journal files in a thread: up to a gibibyte for each node. */
export type JournalJob = {
  readonly dataDir: string
  /** The last record of each node that the store had applied before the journals were read. */
  readonly applied: Readonly<Record<string, number>>
}
export type JournalReport = {
  readonly node: string
  readonly ok: boolean
  readonly line: string
  readonly anchors: readonly { readonly anchor: Anchor; readonly isFiled: boolean }[]
  /** Digests of the last applied settlements, concatenated, without a gap. */
  readonly settled: Uint8Array
}

const SETTLE = '{"kind":"settle"'
const ANCHOR = '{"kind":"anchor"'

/** The evidence that journal records give about the store. */
function createEvidence(applied: number) {
  const anchors: { anchor: Anchor; isFiled: boolean }[] = []
  let digests: Buffer[] = []
  return {
    anchors,
    add({ lsn, body }: StoredRecord): void {
      if (body.startsWith(ANCHOR)) {
        const { anchor, isFiled } = JSON.parse(body) as AnchorRecord
        anchors.push({ anchor, isFiled })
      } else if (lsn <= applied && body.startsWith(SETTLE)) {
        const { rid, timeMs, userId, tokenId, channelId, cost } = JSON.parse(body) as SettleRecord
        const time = Math.floor(timeMs / 1000)
        digests.push(
          digestSettlement({ rid, time, userId, tokenId: tokenId === 0 ? null : tokenId, channelId, cost }),
        )
      }
    },
    /** Settlements may be among missing records: only those after the gap are surely consecutive. */
    forget(): void {
      digests = []
    },
    settled: () => Buffer.concat(digests),
  }
}

function check(node: string, dir: string, applied: number): JournalReport {
  const evidence = createEvidence(applied)
  const report = (ok: boolean, state: string): JournalReport => ({
    node,
    ok,
    line: `journal of ${node}: ${state}`,
    anchors: evidence.anchors,
    settled: ok ? evidence.settled() : new Uint8Array(),
  })
  const segments = segmentsOf(dir)
  const gaps: Gap[] = []
  let records = 0
  let last = 0
  try {
    const after = (segments[0]?.first ?? 1) - 1
    // Records before the oldest file were applied and deleted, or they are missing.
    if (after > applied) gaps.push({ from: applied + 1, to: after, where: `in ${dir}` })
    const onGap = (gap: Gap) => {
      gaps.push(gap)
      evidence.forget()
    }
    for (const record of readSegments({ segments, after, onGap })) {
      evidence.add(record)
      records += 1
      last = record.lsn
    }
    if (last < applied) evidence.forget()
    const missing = missingSuccessor(dir)
    if (missing !== undefined) return report(false, `BROKEN: ${missing}`)
  } catch (error) {
    return report(false, `BROKEN: ${(error as Error).message}`)
  }
  const fatal = gaps.find(({ to }) => to > applied)
  if (fatal) return report(false, `BROKEN: ${describeGap(fatal)}`)
  const summary = `${records} records in ${segments.length} files, intact`
  return report(
    true,
    [summary, ...gaps.map(gap => `${describeGap(gap)}, but already in the ledger`)].join('; '),
  )
}

await work(({ dataDir, applied }: JournalJob) =>
  nodeDirectories(dataDir).map(({ node, dir }) => check(node, dir, applied[node] ?? 0)),
)
