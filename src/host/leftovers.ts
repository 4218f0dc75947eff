import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'

/** Temporary names of files until they are complete: a restored store and its journals, a new secret. */
const UNFINISHED = /^(sluice\.db\.part(-wal|-shm|-journal)?|nodes\.part|secret\.new)$/

/** A restore creates this file first, and renames or deletes it last. */
export const RESTORED_PART = 'sluice.db.part'

/** Whether a restore was killed before its end. The caller must hold the directory lock. */
export const isRestoreInterrupted = (dataDir: string): boolean => existsSync(join(dataDir, RESTORED_PART))

/** Deletes incomplete files of a killed process. The caller must hold the directory lock. */
export function sweepLeftovers(dataDir: string): void {
  for (const name of readdirSync(dataDir))
    if (UNFINISHED.test(name)) rmSync(join(dataDir, name), { recursive: true, force: true })
}
