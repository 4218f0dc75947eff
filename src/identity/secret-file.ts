import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { syncPath } from '../host/sync-path.ts'

export const newSecret = () => randomBytes(32).toString('base64url')

const pathOf = (dataDir: string) => join(dataDir, 'secret')

/** The secrets in the data directory, newest first; undefined before the first start. */
export function readSecretFile(dataDir: string): string | undefined {
  try {
    return readFileSync(pathOf(dataDir), 'utf8').trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Writes atomically: a truncated secret would make everything sealed with it unreadable. */
export function writeSecretFile(dataDir: string, secrets: readonly string[]): void {
  const temporary = `${pathOf(dataDir)}.new`
  const file = openSync(temporary, 'w', 0o600)
  writeSync(file, `${secrets.join(',')}\n`)
  fsyncSync(file)
  closeSync(file)
  renameSync(temporary, pathOf(dataDir))
  syncPath(dataDir)
}
