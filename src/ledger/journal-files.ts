import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { syncPath } from '../host/sync-path.ts'

/** A file of a journal. */
export type JournalFile = {
  size(): number
  /** Reads up to the size of the buffer, and returns the number of bytes. It is 0 at the end of the file. */
  read(into: Buffer, position: number): number
  /** Writes all bytes, or throws: then some of them may be written. */
  write(bytes: Uint8Array, position: number): void
  truncate(size: number): void
  /** Waits until everything that was written is on the disk. */
  sync(): void
  /** The same without waiting. */
  syncSoon(onFailure: (error: Error) => void): void
  close(): void
}

/** The directory of a journal. */
export type JournalFiles = {
  list(dir: string): readonly string[]
  /** Undefined: there is no such file. */
  stat(path: string): { readonly size: number; readonly changedMs: number } | undefined
  openToRead(path: string): JournalFile
  /** Creates the file if it does not exist. */
  openToWrite(path: string): JournalFile
  /** Creates a file that takes this much space. Throws if the disk is full. */
  fill(path: string, bytes: number): void
  remove(path: string): void
  /** Waits until created and removed files of the directory are on the disk. */
  syncDirectory(dir: string): void
}

const OWN_FILE = 0o600

function writeAll(descriptor: number, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.length; )
    done += writeSync(descriptor, bytes, done, bytes.length - done, position + done)
}

function fileOf(descriptor: number): JournalFile {
  let isClosed = false
  let isSyncing = false
  /** The number of a closed descriptor may belong to another file. */
  const descriptorIfOpen = () => {
    if (isClosed) throw new Error('the file is closed')
    return descriptor
  }
  const close = () => {
    if (isClosed) return
    isClosed = true
    if (!isSyncing) closeSync(descriptor)
  }
  return {
    size: () => fstatSync(descriptorIfOpen()).size,
    read: (into, position) => readSync(descriptorIfOpen(), into, 0, into.length, position),
    write: (bytes, position) => writeAll(descriptorIfOpen(), bytes, position),
    truncate: size => ftruncateSync(descriptorIfOpen(), size),
    sync: () => fdatasyncSync(descriptorIfOpen()),
    syncSoon(onFailure) {
      if (isSyncing) return
      const open = descriptorIfOpen()
      isSyncing = true
      fdatasync(open, error => {
        isSyncing = false
        if (isClosed) closeSync(descriptor)
        if (error) onFailure(error)
      })
    },
    close,
  }
}

export const diskFiles: JournalFiles = {
  list: dir => readdirSync(dir),
  stat(path) {
    const stat = statSync(path, { throwIfNoEntry: false })
    return stat && { size: stat.size, changedMs: stat.mtimeMs }
  },
  openToRead: path => fileOf(openSync(path, 'r')),
  // `r+` and `w+` instead of `a+`: on Linux, a file that is opened for appending ignores the position of a write.
  openToWrite: path =>
    fileOf(openSync(path, statSync(path, { throwIfNoEntry: false }) ? 'r+' : 'w+', OWN_FILE)),
  // Random bytes, because a file system that compresses would store zeros in less space.
  fill: (path, bytes) => writeFileSync(path, randomBytes(bytes), { mode: OWN_FILE }),
  remove: path => rmSync(path, { force: true }),
  syncDirectory: syncPath,
}
