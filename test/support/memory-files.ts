import { basename } from 'node:path'
import type { JournalFile, JournalFiles } from '../../src/ledger/journal-files.ts'

/** The files of a journal in memory. What was written stays when they are closed, as on a disk. */
export function createMemoryFiles({ mayWrite = () => {} }: { mayWrite?: () => void } = {}) {
  const contents = new Map<string, Buffer>()
  /** Sizes of files without content. */
  const sizes = new Map<string, number>()

  function open(path: string): JournalFile {
    const content = () => contents.get(path) ?? Buffer.alloc(0)
    return {
      size: () => content().length,
      read: (into, position) => content().copy(into, 0, position),
      write(bytes, position) {
        mayWrite()
        const before = content().subarray(0, position)
        contents.set(path, Buffer.concat([before, bytes, content().subarray(position + bytes.length)]))
      },
      truncate(size) {
        contents.set(path, content().subarray(0, size))
      },
      sync: () => {},
      syncSoon: () => {},
      close: () => {},
    }
  }

  const files: JournalFiles = {
    list: () => [...contents.keys()].map(path => basename(path)),
    stat(path) {
      const size = contents.get(path)?.length ?? sizes.get(path)
      return size === undefined ? undefined : { size, changedMs: Number.POSITIVE_INFINITY }
    },
    openToRead: open,
    openToWrite(path) {
      if (!contents.has(path)) contents.set(path, Buffer.alloc(0))
      return open(path)
    },
    fill(path, bytes) {
      mayWrite()
      sizes.set(path, bytes)
    },
    remove(path) {
      contents.delete(path)
      sizes.delete(path)
    },
    syncDirectory: () => {},
  }
  return { files, contents }
}
