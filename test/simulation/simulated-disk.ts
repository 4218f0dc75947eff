import { segmentsOf } from '../../src/ledger/segments.ts'
import { createMemoryFiles } from '../support/memory-files.ts'

export const JOURNAL = '/journal'
const COMMIT_LINE = '\n#commit '

/** The disk of a node: what its journal has committed survives the process. */
export function createSimulatedDisk() {
  let isFull = false
  const { files, contents } = createMemoryFiles({
    mayWrite() {
      if (isFull) throw new Error('no space left on device')
    },
  })
  return {
    files,
    setFull(value: boolean): void {
      isFull = value
    },
    /** Removes the last commit of the journal, as a disk does that loses a write which it has confirmed. */
    loseLastCommit(): void {
      const newest = segmentsOf(JOURNAL, files.list).at(-1)?.path
      const content = newest === undefined ? undefined : contents.get(newest)
      if (newest === undefined || content === undefined) return
      const last = content.lastIndexOf(COMMIT_LINE)
      const before = content.lastIndexOf(COMMIT_LINE, last - 1)
      // After the line of the commit before it, or after the header.
      const end = content.indexOf('\n', before === -1 ? 0 : before + 1) + 1
      if (last !== -1) contents.set(newest, content.subarray(0, end))
    },
    close: () => contents.clear(),
  }
}

export type SimulatedDisk = ReturnType<typeof createSimulatedDisk>
