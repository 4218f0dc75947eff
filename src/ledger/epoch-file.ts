import { join } from 'node:path'
import type { JournalFiles } from './journal-files.ts'

const NAME = 'epoch'
/** A fixed length: the file is written in place, which needs no space on a full disk. */
const DIGITS = 16

/**
 * The last epoch of a node, beside its journal. A failover may lose the start of a node. Without this file, the next process would get
 * the same epoch, and a statement of the previous process that PostgreSQL executes late would count as its own.
 */
export const createEpochFile = (dir: string, files: JournalFiles) => {
  const path = join(dir, NAME)
  return {
    /** 0: there is none yet. */
    read(): number {
      if (!files.stat(path)) return 0
      const file = files.openToRead(path)
      try {
        const text = Buffer.alloc(DIGITS)
        const length = file.read(text, 0)
        // A process that was killed may have created the file without writing to it.
        return Number.parseInt(text.toString('latin1', 0, length), 10) || 0
      } finally {
        file.close()
      }
    },
    write(epoch: number): void {
      const file = files.openToWrite(path)
      try {
        file.write(Buffer.from(String(epoch).padStart(DIGITS, '0')), 0)
        file.sync()
      } finally {
        file.close()
      }
    },
  }
}
