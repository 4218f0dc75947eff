import { appendFileSync } from 'node:fs'
import { it } from 'node:test'

/** Names a file that collects what laws ran on, over all processes of a run. */
export const LAWS_VARIABLE = 'SLUICE_TEST_LAWS'

/** What one law ran on: a transcript, and the two formats of a translation. */
export type LawRun = { readonly transcript: string; readonly pair?: string }

const runs: LawRun[] = []

process.on('exit', () => {
  const path = process.env[LAWS_VARIABLE]
  if (path !== undefined) appendFileSync(path, runs.map(each => `${JSON.stringify(each)}\n`).join(''))
})

/** A test over a transcript. It is counted when its body has run to the end, never when it is only declared. */
export function law(title: string, run: LawRun, body: () => void | Promise<void>): void {
  it(title, async () => {
    await body()
    runs.push(run)
  })
}

/** The line at the end of a run. */
export function summarizeLaws(lines: string): string {
  const all = lines
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as LawRun)
  const names = [...new Set(all.map(({ transcript }) => transcript))]
  const own = names.filter(isOwn).length
  const pairs = new Set(all.map(({ pair }) => pair).filter(pair => pair !== undefined))
  return `laws over formats: ${all.length} ran, on ${own} transcripts of test/corpus, ${pairs.size} ordered pairs of formats, ${names.length - own} recordings of ../shared/fixtures`
}

const isOwn = (name: string) => name.startsWith('corpus/')
