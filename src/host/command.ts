import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { PACKAGE } from './program-file.ts'

/** How Sluice is called on this machine: only a checkout has the script, and only a global package is on the path. */
function program(): string {
  if (existsSync(new URL('sluice', PACKAGE))) return './sluice'
  return /(?<!\/lib)\/node_modules\/sluice\/$/.test(PACKAGE.pathname) ? 'npx sluice' : 'sluice'
}

/** The command that sets a new password of root. The path of the data directory is not shown to everybody. */
export const resetCommand = (dataDir: string) =>
  `${program()} admin reset-password root${dataDir === resolve('data') ? '' : ' --data DIR'}`
