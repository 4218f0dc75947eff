import { globSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { simulateCorpus } from './simulate.ts'

/** Writes the files of the corpus that the simulator makes anew, and deletes those that it no longer makes. */
const files = await simulateCorpus()
for (const path of globSync('*/simulated-*.jsonl', { cwd: import.meta.dirname }))
  rmSync(join(import.meta.dirname, path))
for (const [path, text] of files) {
  mkdirSync(dirname(join(import.meta.dirname, path)), { recursive: true })
  writeFileSync(join(import.meta.dirname, path), text)
}
console.log(`${files.size} transcripts written by the simulator`)
