import { readFileSync } from 'node:fs'
import { PACKAGE } from './program-file.ts'

export const { version }: { version: string } = JSON.parse(
  readFileSync(new URL('package.json', PACKAGE), 'utf8'),
)
