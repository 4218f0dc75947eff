import { readFileSync } from 'node:fs'

/** `package.json` stands one level above the source, and above the built program. */
const { version: given } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

export const version: string = given
