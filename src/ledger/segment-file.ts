import { crc32 } from 'node:zlib'
import { JournalDamageError } from './journal-damage.ts'
import type { JournalFile } from './journal-files.ts'

/**
 * The format of a journal file: lines of text. Records are JSON, one on each line. The records that were committed together
 * are followed by a line with the sequence number of the first, their number and their checksum:
 *
 *     #journal 1
 *     {"kind":"open",…}
 *     {"kind":"attempt",…}
 *     #commit 1 2 2884950812
 *     #next 3
 *
 * The last line says that another file follows. What comes after the last complete line of this kind was not committed.
 */
const HEADER = Buffer.from('#journal 1\n')
const COMMIT_LINE = /^#commit ([1-9]\d{0,15}) ([1-9]\d{0,9}) (\d{1,10})$/
const NEXT_LINE = /^#next ([1-9]\d{0,15})$/
const MARK = 0x23
const LINE_BREAK = 0x0a
/** The JSON of a record contains no line break. */
const RECORD_SEPARATOR = '\n'

/** Records that were committed together: the sequence number of the first, and the JSON of each. */
export type CommitGroup = { readonly first: number; readonly bodies: readonly string[] }

/** The checksum covers the sequence number and the records. */
export const sumOf = (lsn: number, body: string | Uint8Array) => crc32(body, lsn % 2 ** 32)

const FIRST_BYTES = 65_536
/** A larger buffer is not kept. */
const MAX_KEPT_BYTES = 1_048_576
const MAX_UTF8_BYTES = 3
const MAX_LINE_BYTES = 64

/** Encodes groups into one buffer, which is reused: its bytes are valid until the next call. */
function createGroupEncoder() {
  let buffer = Buffer.allocUnsafe(FIRST_BYTES)

  function reserve(at: number, bytes: number): void {
    if (at + bytes <= buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(buffer.length * 2, at + bytes))
    buffer.copy(larger, 0, 0, at)
    buffer = larger
  }

  /** Each record is written by itself: joining them first would copy all of them once more. */
  function encode(at: number, { first, bodies }: CommitGroup): number {
    let end = at
    for (const body of bodies) {
      reserve(end, body.length * MAX_UTF8_BYTES + MAX_LINE_BYTES)
      end += buffer.write(body, end)
      buffer[end++] = LINE_BREAK
    }
    const sum = sumOf(first, buffer.subarray(at, end - 1))
    return end + buffer.write(`#commit ${first} ${bodies.length} ${sum}\n`, end, 'latin1')
  }

  return (groups: readonly CommitGroup[]): Buffer => {
    if (buffer.length > MAX_KEPT_BYTES) buffer = Buffer.allocUnsafe(FIRST_BYTES)
    let end = 0
    for (const group of groups) end = encode(end, group)
    return buffer.subarray(0, end)
  }
}

/** The end of a file, found without reading all of it. */
type SegmentEnd = {
  /** Undefined if the file has no commit. */
  readonly lastLsn: number | undefined
  readonly hasSuccessor: boolean
  /** Where the next commit is written. What follows was not committed. */
  readonly committedBytes: number
}

const TAIL_BYTES = 65_536

/** Reads backwards, until a line that ends a commit is found. */
function findEnd(file: JournalFile, path: string): SegmentEnd {
  const size = file.size()
  let lastLsn: number | undefined
  let hasSuccessor = false
  let committedBytes = HEADER.length
  for (let tailBytes = TAIL_BYTES; ; tailBytes *= 2) {
    const start = Math.max(0, size - tailBytes)
    const tail = readAt(file, start, size - start)
    for (let end = tail.lastIndexOf(LINE_BREAK); end > 0; ) {
      const before = tail.lastIndexOf(LINE_BREAK, end - 1)
      // The first line may have begun earlier.
      if (before === -1 && start > 0) break
      const line = tail[before + 1] === MARK ? tail.toString('latin1', before + 1, end) : ''
      const commit = COMMIT_LINE.exec(line)
      const isNext = !hasSuccessor && NEXT_LINE.test(line)
      // A commit that was cut off has no such line.
      if (line !== '' && !commit && !isNext && start + before >= 0) throw unreadableLine(path, line)
      if ((commit || isNext) && committedBytes === HEADER.length) committedBytes = start + end + 1
      if (isNext) hasSuccessor = true
      if (commit) {
        lastLsn = Number(commit[1]) + Number(commit[2]) - 1
        return { lastLsn, hasSuccessor, committedBytes }
      }
      end = before
    }
    if (start === 0) return { lastLsn, hasSuccessor, committedBytes }
  }
}

function readAt(file: JournalFile, position: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length)
  let done = 0
  while (done < length) {
    const count = file.read(bytes.subarray(done), position + done)
    if (count === 0) break
    done += count
  }
  return bytes.subarray(0, done)
}

/**
 * Whether the file has its header. False for a file that was created and not written to. A header that a power failure
 * has cut off, or replaced by zeros, was not written either.
 */
function hasHeader(file: JournalFile, path: string): boolean {
  const start = readAt(file, 0, HEADER.length)
  if (start.equals(HEADER)) return true
  const zeros = start.indexOf(0)
  const content = zeros === -1 ? start : start.subarray(0, zeros)
  const isIncomplete =
    HEADER.subarray(0, content.length).equals(content) &&
    start.subarray(content.length).every(byte => byte === 0)
  if (!isIncomplete) throw new JournalDamageError(`${path} cannot be read (it is not a journal file)`)
  return false
}

const READ_BYTES = 262_144
/** A commit is the work of one turn of the event loop, or of an outage of the disk. */
const MAX_GROUP_BYTES = 256 * 1_048_576

/** The commits of a file, each with a verified checksum. An incomplete one at the end was not committed. */
function* readGroups(file: JournalFile, path: string): Generator<CommitGroup> {
  let pending = Buffer.alloc(0)
  let position = HEADER.length
  const part = Buffer.allocUnsafe(READ_BYTES)
  for (;;) {
    const count = file.read(part, position)
    if (count === 0) return
    position += count
    // Lines that were searched before are not searched again.
    let searchFrom = pending.length
    pending = Buffer.concat([pending, part.subarray(0, count)])
    let groupStart = 0
    for (;;) {
      const end = pending.indexOf(LINE_BREAK, searchFrom)
      if (end === -1) break
      const lineStart = end === 0 ? 0 : pending.lastIndexOf(LINE_BREAK, end - 1) + 1
      searchFrom = end + 1
      if (pending[lineStart] !== MARK) continue
      const line = pending.toString('latin1', lineStart, end)
      if (lineStart > groupStart || !NEXT_LINE.test(line))
        yield groupOf(pending.subarray(groupStart, lineStart), line, path)
      groupStart = end + 1
    }
    pending = pending.subarray(groupStart)
    if (pending.length > MAX_GROUP_BYTES)
      throw new JournalDamageError(`${path} cannot be read (a commit has no end)`)
  }
}

const unreadableLine = (path: string, line: string) =>
  new JournalDamageError(`${path} cannot be read ("${line.slice(0, MAX_LINE_BYTES)}")`)

function groupOf(lines: Buffer, commitLine: string, path: string): CommitGroup {
  const [, first, count, sum] = (COMMIT_LINE.exec(commitLine) ?? []).map(Number)
  if (first === undefined) throw unreadableLine(path, commitLine)
  const records = lines.subarray(0, -1)
  const bodies = records.toString().split(RECORD_SEPARATOR)
  if (sum !== sumOf(first, records) || bodies.length !== count)
    throw new JournalDamageError(`${path}: the checksum of record ${first} does not match`)
  return { first, bodies }
}

/** Reads a journal file, which a running gateway may be writing. */
export function readSegmentFile(file: JournalFile, path: string) {
  const hasRecords = hasHeader(file, path)
  return {
    /** False: the file was created and not written to. */
    hasRecords,
    hasSuccessor: () => hasRecords && findEnd(file, path).hasSuccessor,
    lastLsn: () => (hasRecords ? findEnd(file, path).lastLsn : undefined),
    groups: () => readGroups(file, path),
    close: () => file.close(),
  }
}

/**
 * Opens a journal file for further commits, and removes the incomplete one at its end. `fullSync`: each commit waits for the
 * disk.
 */
export function openSegmentFile(file: JournalFile, path: string, { fullSync = false } = {}) {
  const encode = createGroupEncoder()
  const lastEnd = hasHeader(file, path) ? findEnd(file, path) : undefined
  let end = lastEnd?.committedBytes ?? 0
  if (file.size() > end) file.truncate(end)
  if (lastEnd === undefined) append(HEADER)

  /** After a failure, the next call writes at the same position. */
  function append(bytes: Uint8Array): void {
    file.write(bytes, end)
    if (fullSync) file.sync()
    end += bytes.length
  }

  return {
    lastLsn: lastEnd?.lastLsn,
    commit(groups: readonly CommitGroup[]): void {
      try {
        append(encode(groups))
      } catch (error) {
        // The incomplete bytes would take space, and precede a shorter commit.
        file.truncate(end)
        throw error
      }
    },
    markSuccessor: (first: number) => append(Buffer.from(`#next ${first}\n`)),
    sync: file.sync,
    syncSoon: file.syncSoon,
    close: file.close,
  }
}

export type SegmentFile = ReturnType<typeof openSegmentFile>
