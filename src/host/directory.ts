import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Makes a directory for its owner alone, and those above it that are missing. Node's own way to make several never
 * returns where the system says that a directory is missing which is there, as it does under `/proc`.
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
