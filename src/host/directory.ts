import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Creates a directory for its owner alone, with missing parents. `mkdir` of Node.js with `recursive` loops forever where
 * the system reports an existing directory as missing, as it does under `/proc`.
 */
export function makeDirectory(path: string): void {
  const above = dirname(path)
  if (!existsSync(above)) makeDirectory(above)
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !statSync(path).isDirectory()) throw error
  }
}
