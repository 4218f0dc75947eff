import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'

/** What is written under another name first, until it is whole: a restored store and its journals, a new secret. */
const UNFINISHED = /^(sluice\.db\.part(-wal|-shm|-journal)?|nodes\.part|secret\.new)$/

/** Takes away what a killed process was still writing. Only whoever holds the directory may ask for it. */
export function sweepLeftovers(dataDir: string): void {
  for (const name of readdirSync(dataDir))
    if (UNFINISHED.test(name)) rmSync(join(dataDir, name), { recursive: true, force: true })
}
