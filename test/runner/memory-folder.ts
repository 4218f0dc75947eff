import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { freemem } from 'node:os'
import { join } from 'node:path'

/** A file system in memory, on Linux. */
const SHARED_MEMORY = '/dev/shm'
/** A whole run needs about 1 GB for its files at the same time, and 5 GB for its processes. */
const LEAST_ROOM = 4 * 2 ** 30
const LEAST_FREE = 10 * 2 ** 30

function hasRoom(): boolean {
  if (!existsSync(SHARED_MEMORY)) return false
  const { bavail, bsize } = statfsSync(SHARED_MEMORY)
  return bavail * bsize >= LEAST_ROOM && freemem() >= LEAST_FREE
}

const PREFIX = 'sluice-tests-'

/** Removes the folders of runs that were killed. */
function removeOld(): void {
  for (const name of readdirSync(SHARED_MEMORY).filter(name => name.startsWith(PREFIX)))
    if (!existsSync(`/proc/${name.slice(PREFIX.length)}`))
      rmSync(join(SHARED_MEMORY, name), { recursive: true, force: true })
}

/**
 * Lets this process and its children have their temporary files in memory, if there is enough of it: a database of PostgreSQL has 700
 * files, and on a disk its creation takes ten times the CPU time.
 */
export function prepareMemoryFolder(): { readonly remove: () => void } {
  if (!hasRoom()) return { remove() {} }
  removeOld()
  const folder = join(SHARED_MEMORY, `${PREFIX}${process.pid}`)
  mkdirSync(folder)
  // PostgreSQL may run as another user.
  chmodSync(folder, 0o1777)
  process.env.TMPDIR = folder
  return { remove: () => rmSync(folder, { recursive: true, force: true }) }
}
