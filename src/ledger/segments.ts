import { basename, join } from 'node:path'
import { JournalDamageError } from './journal-damage.ts'
import { diskFiles, type JournalFiles } from './journal-files.ts'
import { type CommitGroup, readSegmentFile } from './segment-file.ts'
import { readSqliteSegment } from './sqlite-segments.ts'

/** A file of a journal, named after the sequence number of its first record. */
type JournalSegment = { readonly path: string; readonly first: number }
export type StoredRecord = { readonly lsn: number; readonly body: string }

/** A range of records that are missing, and the place where they should be. */
export type Gap = { readonly from: number; readonly to: number; readonly where: string }

const NAME = /^journal-(\d{16})\.(?:log|db)$/

export const segmentPath = (dir: string, first: number) =>
  join(dir, `journal-${String(first).padStart(16, '0')}.log`)

/** Whether an earlier version wrote the file. */
export const isSqlite = (path: string) => path.endsWith('.db')

/** Segments of a directory, oldest first. */
export function segmentsOf(
  dir: string,
  list: (dir: string) => readonly string[] = diskFiles.list,
): JournalSegment[] {
  return list(dir)
    .flatMap(name => {
      const first = NAME.exec(name)?.[1]
      return first === undefined ? [] : [{ path: join(dir, name), first: Number(first) }]
    })
    .sort((a, b) => a.first - b.first)
}

type SegmentReader = {
  /** False: the file was created and not written to. */
  readonly hasRecords: boolean
  /** Whether another file follows. If it does not exist, it was deleted. */
  hasSuccessor(): boolean
  lastLsn(): number | undefined
  /** The commits, each with a verified checksum. */
  groups(): Iterable<CommitGroup>
  close(): void
}

const openReader = (path: string, files: JournalFiles): SegmentReader =>
  isSqlite(path) ? readSqliteSegment(path) : readSegmentFile(files.openToRead(path), path)

export function inspectSegment<T>(
  path: string,
  inspect: (reader: SegmentReader) => T,
  files: JournalFiles = diskFiles,
): T {
  const reader = openReader(path, files)
  try {
    return inspect(reader)
  } finally {
    reader.close()
  }
}

type SegmentReading = {
  readonly segments: readonly JournalSegment[]
  readonly after: number
  readonly files?: JournalFiles
  /** Called for every gap in the sequence numbers. Reading continues after it. */
  onGap(gap: Gap): void
}

const whereBetween = (before: JournalSegment | undefined, { path }: JournalSegment) =>
  before ? `between ${before.path} and ${basename(path)}` : `before ${path}`

/** Every record after a sequence number, in order, each with a verified checksum. */
export function* readSegments({
  segments,
  after,
  files = diskFiles,
  onGap,
}: SegmentReading): Generator<StoredRecord> {
  let last = after
  let before: JournalSegment | undefined
  for (const [index, segment] of segments.entries()) {
    const following = segments[index + 1]?.first
    if (following !== undefined && following <= after + 1) continue
    const { path, first } = segment
    if (first > last + 1) onGap({ from: last + 1, to: first - 1, where: whereBetween(before, segment) })
    last = Math.max(last, first - 1)
    const reader = openReader(path, files)
    try {
      // The writer has just created the newest file.
      if (following === undefined && !reader.hasRecords) return
      if (!reader.hasRecords) throw new JournalDamageError(`${path} is empty, but it had records`)
      for (const record of recordsOf(reader.groups(), last)) {
        if (record.lsn > last + 1) onGap({ from: last + 1, to: record.lsn - 1, where: `in ${path}` })
        last = record.lsn
        yield record
      }
    } finally {
      reader.close()
    }
    before = segment
  }
}

function* recordsOf(groups: Iterable<CommitGroup>, after: number): Generator<StoredRecord> {
  for (const { first, bodies } of groups) {
    if (first + bodies.length - 1 <= after) continue
    for (const [index, body] of bodies.entries()) {
      const lsn = first + index
      if (lsn > after) yield { lsn, body }
    }
  }
}

export const describeGap = ({ from, to, where }: Gap) =>
  from === to ? `record ${from} is missing ${where}` : `the records ${from} to ${to} are missing ${where}`

/** An error message if the last segment is marked as having a successor, which is missing then. */
export function missingSuccessor(dir: string): string | undefined {
  const newest = segmentsOf(dir).at(-1)
  if (!newest) return undefined
  if (!inspectSegment(newest.path, reader => reader.hasSuccessor())) return undefined
  // The successor may have been created after the directory was listed.
  if (segmentsOf(dir).at(-1)?.path !== newest.path) return undefined
  return `the file that followed ${newest.path} is missing`
}
