import { constants } from 'node:fs'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { BUDGET_SHORTAGES } from '../../domain/shortage.ts'
import { type Budget, overloaded, type Share } from '../../http/budget.ts'
import { joined, viewsOf } from '../../wire/multipart-parts.ts'
import type { BodyMemory } from './body-memory.ts'

/** The files of all uploads that are in memory. */
export const ALL_MEMORY_BYTES = 64 * 1_048_576
const PIECE_BYTES = 262_144

/** Where files are stored: in memory up to a total, then on disk. */
export type FormStorage = {
  inMemory: number
  /** For bodies that are read as a whole. */
  readonly memory: BodyMemory
  readonly disk: Budget
  openFile(): Promise<FileHandle>
}

/** Opens an unlinked file, which the operating system deletes when the process ends. */
export async function openUnlinked(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600)
  try {
    await unlink(path)
  } catch (error) {
    // Another process may have deleted the file at its start.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      await handle.close()
      throw error
    }
  }
  return handle
}

async function writeAll(handle: FileHandle, bytes: Buffer, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, at + done)
    done += bytesWritten
  }
}

/** A range of the bytes in these chunks. Copies only if it spans several. */
export const rangeOf = (chunks: readonly Buffer[], offset: number, length: number): Buffer =>
  joined(viewsOf(chunks, offset, offset + length))

/** Stores the bytes of one file: in memory while it is small, then on disk. */
export function createStoredFile(storage: FormStorage, share: Share, memoryBytes: number) {
  const chunks: Buffer[] = []
  let size = 0
  let diskBytes = 0
  let handle: FileHandle | undefined
  let users = 0
  let isOver = false

  /** Returns the memory to the total. */
  function releaseChunks(): void {
    for (const chunk of chunks) storage.inMemory -= chunk.length
    chunks.length = 0
  }

  const closeUnused = () => {
    if (!isOver || users > 0) return
    releaseChunks()
    storage.disk.give(diskBytes)
    diskBytes = 0
    if (handle === undefined) return
    const closing = handle
    handle = undefined
    // The file is no longer used, so a failed close has no consequence.
    closing.close().catch(() => {})
  }

  /** Reserves memory for a chunk; false: there is no room. */
  const reserveMemory = ({ length }: Buffer): boolean =>
    size + length <= memoryBytes && storage.inMemory + length <= ALL_MEMORY_BYTES && share.take(length)

  async function write(bytes: Buffer, at: number): Promise<void> {
    if (!storage.disk.take(bytes.length)) throw overloaded(BUDGET_SHORTAGES.tmp)
    diskBytes += bytes.length
    if (handle) await writeAll(handle, bytes, at)
  }

  function joinChunks(): Buffer {
    const all = joined(chunks)
    chunks.splice(0, chunks.length, all)
    return all
  }

  async function readAt(offset: number, length: number): Promise<Buffer> {
    if (handle === undefined) return rangeOf(chunks, offset, length)
    users += 1
    try {
      const buffer = Buffer.allocUnsafe(Math.max(0, Math.min(length, size - offset)))
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, offset)
      return buffer.subarray(0, bytesRead)
    } finally {
      users -= 1
      closeUnused()
    }
  }

  async function* pieces() {
    for (let offset = 0; offset < size; ) {
      const piece = await readAt(offset, PIECE_BYTES)
      if (piece.length === 0) throw new Error('an uploaded file ended early')
      offset += piece.length
      yield piece
    }
  }

  return {
    size: () => size,
    async take(chunk: Buffer): Promise<void> {
      users += 1
      try {
        if (handle === undefined && !reserveMemory(chunk)) {
          handle = await storage.openFile()
          await write(joinChunks(), 0)
          releaseChunks()
        }
        if (handle === undefined) {
          chunks.push(chunk)
          storage.inMemory += chunk.length
        } else await write(chunk, size)
        size += chunk.length
      } finally {
        users -= 1
        closeUnused()
      }
    },
    readAt,
    inMemory: () => (handle === undefined ? chunks : undefined),
    open: () => Readable.from(handle === undefined ? [...chunks] : pieces(), { objectMode: false }),
    end(): void {
      isOver = true
      closeUnused()
    },
  }
}

export type StoredUpload = ReturnType<typeof createStoredFile>
