import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'

/** Changes the text of a journal file. */
export function editJournal(path: string, change: (text: string) => string): void {
  const text = readFileSync(path, 'latin1')
  const changed = change(text)
  assert.notEqual(changed, text)
  writeFileSync(path, changed, 'latin1')
}

/** The commit whose first record has this number, with its line. */
export const commitOf = (lsn: number) => new RegExp(`(?:^\\{.*\\n)+^#commit ${lsn} \\d+ \\d+\\n`, 'm')
