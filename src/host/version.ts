import { readFileSync } from 'node:fs'
import { PACKAGE } from './program-file.ts'

const { version: given } = JSON.parse(readFileSync(new URL('package.json', PACKAGE), 'utf8'))

export const version: string = given
