import { randomBytes } from 'node:crypto'
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'

/** The directory of a journal. */
export type JournalFiles = {
  list(dir: string): readonly string[]
  /** Undefined: there is no such file. */
  stat(path: string): { readonly size: number; readonly changedMs: number } | undefined
  /** Creates a file that takes this much space. Throws if the disk is full. */
  fill(path: string, bytes: number): void
  remove(path: string): void
}

export const diskFiles: JournalFiles = {
  list: dir => readdirSync(dir),
  stat(path) {
    const stat = statSync(path, { throwIfNoEntry: false })
    return stat && { size: stat.size, changedMs: stat.mtimeMs }
  },
  // Random bytes, because a file system that compresses would store zeros in less space.
  fill: (path, bytes) => writeFileSync(path, randomBytes(bytes), { mode: 0o600 }),
  remove: path => rmSync(path, { force: true }),
}
