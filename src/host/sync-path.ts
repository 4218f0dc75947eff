import { closeSync, fsyncSync, openSync } from 'node:fs'

/** Waits until a file is on the disk, or the names of the files that were created, renamed or removed in a directory. */
export function syncPath(path: string): void {
  const descriptor = openSync(path, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
