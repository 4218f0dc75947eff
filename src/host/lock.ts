import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openDatabase } from './sqlite-open.ts'

const SQLITE_BUSY = 5

/** Another process has the data directory. */
export class DirectoryInUseError extends Error {
  constructor(dataDir: string, pid: string) {
    super(`the data directory ${dataDir} is in use by another Sluice process (pid ${pid})`)
    this.name = 'DirectoryInUseError'
  }
}

/** The file cannot be opened, for example because a start as another user has created it. */
export class LockFileError extends Error {
  constructor(path: string, cause: Error) {
    super(`${path} cannot be opened (${cause.message}): check its owner and permissions`, { cause })
    this.name = 'LockFileError'
  }
}

function openLockFile(path: string, waitMs: number) {
  try {
    return openDatabase(path, { readOnly: false, timeoutMs: waitMs })
  } catch (error) {
    throw new LockFileError(path, error as Error)
  }
}

/**
 * Locks a file for this process until it is released or the process ends. The lock is SQLite's, on an otherwise empty
 * database: the system drops it even on kill -9, so no lock is ever stale.
 */
export function lockFile(path: string, waitMs: number): { release(): void } {
  const db = openLockFile(path, waitMs)
  try {
    db.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    throw error
  }
  return { release: () => db.close() }
}

/** Locks the data directory for this process. */
export function lockDirectory(dataDir: string): { release(): void } {
  const pidFile = join(dataDir, 'sluice.pid')
  const lock = lockOf(dataDir, pidFile)
  writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 })
  return {
    release() {
      rmSync(pidFile, { force: true })
      lock.release()
    },
  }
}

function lockOf(dataDir: string, pidFile: string) {
  try {
    return lockFile(join(dataDir, 'sluice.lock'), 0)
  } catch (error) {
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw error
    let pid = 'unknown'
    try {
      pid = readFileSync(pidFile, 'utf8').trim()
    } catch {
      // The other process is just starting and has not written its pid yet.
    }
    throw new DirectoryInUseError(dataDir, pid)
  }
}
