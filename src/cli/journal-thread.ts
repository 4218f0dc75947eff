import { type Gap, missingFollower, readSegments, sayGap, segmentsOf } from '../ledger/segments.ts'
import { nodeDirectories, openToRead } from './backup-file.ts'
import { work } from './thread-work.ts'

/** Reads every journal that is kept, from its first file to its last; that is up to a gibibyte for each node. */
export type JournalJob = {
  readonly dataDir: string
  /** How far each node's journal was in the store when the reading began. */
  readonly applied: Readonly<Record<string, number>>
}
export type JournalReport = { readonly ok: boolean; readonly line: string }

function check(node: string, dir: string, applied: number): JournalReport {
  const said = (ok: boolean, what: string) => ({ ok, line: `journal of ${node}: ${what}` })
  const segments = segmentsOf(dir)
  const gaps: Gap[] = []
  let records = 0
  try {
    const after = (segments[0]?.first ?? 1) - 1
    // What the oldest file begins after has been applied and taken away, or it is missing.
    if (after > applied) gaps.push({ from: applied + 1, to: after, where: `in ${dir}` })
    for (const _proven of readSegments({ segments, after, open: openToRead, onGap: gap => gaps.push(gap) }))
      records += 1
    const missing = missingFollower(dir, openToRead)
    if (missing !== undefined) return said(false, `BROKEN: ${missing}`)
  } catch (error) {
    return said(false, `BROKEN: ${(error as Error).message}`)
  }
  const fatal = gaps.find(({ to }) => to > applied)
  if (fatal) return said(false, `BROKEN: ${sayGap(fatal)}`)
  const kept = `${records} records in ${segments.length} files, as they were written`
  return said(true, [kept, ...gaps.map(gap => `${sayGap(gap)}, and in the books`)].join('; '))
}

await work(({ dataDir, applied }: JournalJob) =>
  nodeDirectories(dataDir).map(({ node, dir }) => check(node, dir, applied[node] ?? 0)),
)
