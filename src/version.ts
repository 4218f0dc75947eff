import { readFileSync } from 'node:fs'

/** `package.json` stands one level above the source, two above the built program. */
function readVersion(): string {
  for (const path of ['../package.json', '../../package.json']) {
    try {
      const { name, version } = JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'))
      if (name === 'sluice') return version
    } catch {
      // Not there: the next place.
    }
  }
  return 'unknown'
}

export const version = readVersion()
