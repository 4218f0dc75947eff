import { join } from 'node:path'
import { UnreachableError } from '../domain/errors.ts'
import { systemTimers, type Timers } from '../host/timers.ts'
import { createEpochFile } from './epoch-file.ts'
import { JournalDamageError } from './journal-damage.ts'
import { diskFiles, type JournalFiles } from './journal-files.ts'
import type { JournalRecord, Numbered } from './record.ts'
import { type CommitGroup, openSegmentFile, type SegmentFile } from './segment-file.ts'
import {
  describeGap,
  type Gap,
  inspectSegment,
  isSqlite,
  readSegments,
  segmentPath,
  segmentsOf,
} from './segments.ts'
import { markSqliteSuccessor } from './sqlite-segments.ts'

export type JournalDeps = {
  readonly dir: string
  readonly fullSync: boolean
  readonly files?: JournalFiles
  /** The number of records of a segment. After them, the journal rotates to a new file. */
  readonly segmentRecords?: number
  nowMs(): number
  readonly timers?: Pick<Timers, 'endOfTurn' | 'every'>
  /** Called when the disk refused a commit and the reserve file was deleted to make room for it. */
  onReserveReleased(error: Error): void
  /** Called when written records could not be flushed to the disk in the background. */
  onSyncFailure(error: Error): void
}

const SEGMENT_RECORDS = 200_000
const RETENTION_MS = 24 * 3600 * 1000
const RETENTION_BYTES = 1024 * 1024 * 1024
/** The size of a reserve file, which is deleted when the disk is full: running requests can still be settled (ADR 16). */
const RESERVE_BYTES = 4 * 1024 * 1024
const RESERVE_RETRY_MS = 1_000
/** How often the disk gets what was written, unless each commit waits for it. A power failure may lose what is newer. */
const SYNC_EVERY_MS = 1_000

/** The place of an open record, if there is none. */
const NONE = Number.POSITIVE_INFINITY

/** The records of one turn of the event loop, which are committed together. Each is serialized once, when it is appended. */
type OpenGroup = {
  readonly first: number
  readonly bodies: string[]
  readonly done: PromiseWithResolvers<void>
  /** The oldest open record of the requests that the group settles. */
  oldestOpenLsn: number
}

/**
 * The node's write-ahead log of everything that concerns money. All records of one turn of the event loop are one commit.
 * Committed records survive a killed process, and with `fullSync` a power cut.
 */
export function createJournal(deps: JournalDeps) {
  const { dir, fullSync, segmentRecords = SEGMENT_RECORDS, nowMs, onReserveReleased, onSyncFailure } = deps
  const { files = diskFiles, timers = systemTimers } = deps
  let segment: { readonly file: SegmentFile; readonly first: number }
  let nextLsn = 1
  let batch: OpenGroup | undefined
  /** Groups that the disk refused. The next commit includes them, so that the sequence has no gap. */
  let unwritten: OpenGroup[] = []
  let isSynced = true
  let isClosed = false
  /** Records up to this number are not needed for recovery. */
  let neededAfter = 0
  let isEmpty = false
  const reserve = join(dir, 'reserve')
  let hasReserve = false
  let reserveTriedMs = Number.NEGATIVE_INFINITY

  /** Creates the reserve if it is missing. False while the disk has no room for it. */
  function ensureReserve(): boolean {
    if (hasReserve || nowMs() - reserveTriedMs < RESERVE_RETRY_MS) return hasReserve
    reserveTriedMs = nowMs()
    try {
      if (files.stat(reserve)?.size !== RESERVE_BYTES) files.fill(reserve, RESERVE_BYTES)
      hasReserve = true
    } catch {
      // The disk is still full. An incomplete reserve file would only take space from the journal.
      files.remove(reserve)
    }
    return hasReserve
  }

  function openSegment(first: number): typeof segment {
    const path = segmentPath(dir, first)
    const journalFile = files.openToWrite(path)
    try {
      const file = openSegmentFile(journalFile, path, { fullSync })
      if (fullSync) files.syncDirectory(dir)
      return { file, first }
    } catch (error) {
      journalFile.close()
      throw error
    }
  }

  /** Opens the newest segment and determines the next sequence number. */
  function start(): void {
    const [newest, older] = segmentsOf(dir, files.list).reverse()
    const path = newest?.path ?? segmentPath(dir, 1)
    const hasRecords = newest !== undefined && inspectSegment(path, reader => reader.hasRecords, files)
    if (hasRecords && inspectSegment(path, reader => reader.hasSuccessor(), files))
      throw new JournalDamageError(`the file that followed ${path} is missing`)
    // A segment is marked when its successor has a header, so a marked segment with an empty successor is damage.
    if (newest && !hasRecords && older && inspectSegment(older.path, reader => reader.hasSuccessor(), files))
      throw new JournalDamageError(`${path} is empty, but it had records`)
    isEmpty = !hasRecords && !older
    if (isSqlite(path)) continueAfterSqlite(path, { first: newest?.first ?? 1, hasRecords })
    else {
      segment = openSegment(newest?.first ?? 1)
      nextLsn = (segment.file.lastLsn ?? segment.first - 1) + 1
    }
  }

  /** Opens the first segment after those of an earlier version. */
  function continueAfterSqlite(
    path: string,
    { first, hasRecords }: { first: number; hasRecords: boolean },
  ): void {
    const lastLsn = hasRecords ? inspectSegment(path, reader => reader.lastLsn(), files) : undefined
    nextLsn = (lastLsn ?? first - 1) + 1
    // A file without records would have the same sequence number.
    if (lastLsn === undefined) removeSegment(path)
    segment = openSegment(nextLsn)
    if (lastLsn !== undefined) markSqliteSuccessor(path)
  }

  function removeSegment(path: string): void {
    for (const suffix of isSqlite(path) ? ['', '-wal', '-shm'] : ['']) files.remove(`${path}${suffix}`)
  }

  /** Every record after a sequence number, from all segments. Gaps are ignored here: `resume` has checked them. */
  function* readAfter(after: number): Generator<Numbered> {
    for (const { lsn, body } of readSegments({
      segments: segmentsOf(dir, files.list),
      after,
      files,
      onGap: () => {},
    }))
      yield { lsn, record: JSON.parse(body) }
  }

  /** The same, and then the records that the disk has refused. Throws if a record is missing. */
  function* readWithoutGaps(after: number): Generator<Numbered> {
    const onGap = (gap: Gap) => {
      throw new JournalDamageError(`${describeGap(gap)}, but the store has lost its effect`)
    }
    for (const { lsn, body } of readSegments({ segments: segmentsOf(dir, files.list), after, files, onGap }))
      yield { lsn, record: JSON.parse(body) }
    for (const { first, bodies } of unwritten)
      for (const [index, body] of bodies.entries())
        if (first + index > after) yield { lsn: first + index, record: JSON.parse(body) }
  }

  /**
   * Checks every record that recovery needs, before any of them is applied. Throws if a record is missing that the store
   * has not applied. Returns a description of each gap whose records the store has applied. New records are numbered above
   * the applied ones, even if those are missing.
   */
  function resume({ after, appliedLsn }: { after: number; appliedLsn: number }): string[] {
    if (isEmpty && appliedLsn > 0)
      throw new JournalDamageError(`${dir} has no records, but the store has applied ${appliedLsn} of them`)
    const gaps: Gap[] = []
    const segments = segmentsOf(dir, files.list)
    for (const _checked of readSegments({ segments, after, files, onGap: gap => gaps.push(gap) }));
    if (nextLsn <= appliedLsn) gaps.push({ from: nextLsn, to: appliedLsn, where: `at the end of ${dir}` })
    const fatal = gaps.find(({ to }) => to > appliedLsn)
    if (fatal)
      throw new JournalDamageError(
        `${describeGap(fatal)}; nothing was applied. Put the file back or restore a backup (docs/operating/backup.md)`,
      )
    nextLsn = Math.max(nextLsn, appliedLsn + 1)
    return gaps.map(describeGap)
  }

  function flush(): void {
    const flushing = batch
    batch = undefined
    const groups = flushing ? [...unwritten, flushing] : unwritten
    if (groups.length === 0) return
    try {
      if (isClosed) throw new Error('it is closed')
      commitWithReserve(groups)
      unwritten = []
      flushing?.done.resolve()
    } catch (error) {
      unwritten = groups
      const why = new Error(`the journal cannot be written: ${(error as Error).message}`, { cause: error })
      flushing?.done.reject(new UnreachableError(why))
      return
    }
    if (nextLsn - segment.first >= segmentRecords) rotate()
  }

  function commitWithReserve(groups: readonly CommitGroup[]): void {
    try {
      commit(groups)
    } catch (error) {
      if (!hasReserve) throw error
      files.remove(reserve)
      hasReserve = false
      onReserveReleased(error as Error)
      commit(groups)
    }
  }

  function commit(groups: readonly CommitGroup[]): void {
    segment.file.commit(groups)
    isSynced = fullSync
  }

  const stopSyncing = fullSync ? () => {} : timers.every(SYNC_EVERY_MS, syncSoon)
  function syncSoon(): void {
    if (isSynced) return
    isSynced = true
    segment.file.syncSoon(onSyncFailure)
  }

  function rotate(): void {
    const previous = segment
    let following: typeof segment | undefined
    try {
      following = openSegment(nextLsn)
      previous.file.markSuccessor(nextLsn)
    } catch {
      // The disk is full or failing: keep the current segment. The next commit that fails reports the reason.
      following?.file.close()
      files.remove(segmentPath(dir, nextLsn))
      return
    }
    segment = following
    previous.file.syncSoon(onSyncFailure)
    previous.file.close()
    sweep()
  }

  /** Deletes applied segments after a day or above 1 GiB. Until then, a store restored from a backup can replay them. */
  function sweep(): void {
    const segments = segmentsOf(dir, files.list)
    let bytes = 0
    for (const [index, { path, first }] of [...segments.entries()].reverse()) {
      const stat = files.stat(path)
      bytes += stat?.size ?? 0
      const following = segments[index + 1]?.first
      const isApplied = following !== undefined && following - 1 <= neededAfter && first !== segment.first
      if (isApplied && (nowMs() - (stat?.changedMs ?? nowMs()) > RETENTION_MS || bytes > RETENTION_BYTES))
        removeSegment(path)
    }
  }

  start()
  ensureReserve()

  return {
    readAfter,
    readWithoutGaps,
    /** Whether new requests may be accepted: with the reserve file, their settlements can be written even to a full disk. */
    hasRoom: ensureReserve,
    resume,
    epochFile: createEpochFile(dir, files),
    /**
     * Returns the sequence number and JSON of the record at once. The record is durable when `committed` resolves.
     * `openLsn`: the open record of the request that it settles.
     */
    append(record: JournalRecord, openLsn = NONE): { lsn: number; body: string; committed: Promise<void> } {
      if (!batch) {
        batch = { first: nextLsn, bodies: [], done: Promise.withResolvers(), oldestOpenLsn: NONE }
        // An unhandled rejection must not end the process; callers that act on a record await `committed`.
        batch.done.promise.catch(() => {})
        timers.endOfTurn(flush)
      }
      const lsn = nextLsn++
      const body = JSON.stringify(record)
      batch.bodies.push(body)
      if (openLsn < batch.oldestOpenLsn) batch.oldestOpenLsn = openLsn
      return { lsn, body, committed: batch.done.promise }
    },
    /** Commits the appended records now instead of at the end of the turn. */
    flush,
    /** Allows the deletion of records up to this one: all are applied, and every running request started later. */
    markNeededAfter(lsn: number): void {
      neededAfter = lsn
    },
    /** The oldest open record of a request whose settlement is not on the disk yet; infinite if there is none. */
    oldestOpenLsn: () =>
      unwritten.reduce(
        (oldest, group) => Math.min(oldest, group.oldestOpenLsn),
        batch?.oldestOpenLsn ?? NONE,
      ),
    /** The number of records in memory since the disk refused a commit. */
    unwritten: () => (unwritten[0] ? nextLsn - unwritten[0].first : 0),
    close(): void {
      stopSyncing()
      flush()
      isClosed = true
      segment.file.close()
    },
  }
}

export type Journal = ReturnType<typeof createJournal>
