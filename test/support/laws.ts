import { appendFileSync } from 'node:fs'
import { it } from 'node:test'

/** Names a file that collects what the law tests ran on, over all processes of a run. */
export const LAWS_VARIABLE = 'SLUICE_TEST_LAWS'
/** If set, one law test of twenty runs. */
export const LAW_SAMPLE_VARIABLE = 'SLUICE_TEST_LAW_SAMPLE'
const SAMPLE_STEP = 20

/** What one law test ran on: a transcript, and the two formats of a translation. */
export type LawRun = { readonly transcript: string; readonly pair?: string }

const runs: LawRun[] = []

process.on('exit', () => {
  const path = process.env[LAWS_VARIABLE]
  // The process that starts the tests has no such file, and has removed the folder by now.
  if (path !== undefined && runs.length > 0)
    appendFileSync(path, runs.map(each => `${JSON.stringify(each)}\n`).join(''))
})

let declared = 0

/** A test over a transcript. It is counted when its body has completed, not when it is only declared. */
export function law(title: string, run: LawRun, body: () => void | Promise<void>): void {
  if (process.env[LAW_SAMPLE_VARIABLE] !== undefined && declared++ % SAMPLE_STEP !== 0) return
  it(title, async () => {
    await body()
    runs.push(run)
  })
}

/** Fewer laws than these must not run in a whole run: with the recordings of vendors, and without them. */
const LEAST_WITH_RECORDINGS = 6_503
const LEAST = 4_217

type LawCount = { readonly ran: number; readonly least: number; readonly summary: string }

/** How many law tests ran, and on what. */
export function countLaws(lines: string): LawCount {
  const all = lines
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as LawRun)
  const transcripts = [...new Set(all.map(({ transcript }) => transcript))]
  const own = transcripts.filter(name => name.startsWith('corpus/')).length
  const pairs = new Set(all.map(({ pair }) => pair).filter(pair => pair !== undefined)).size
  const recordings = transcripts.length - own
  const summary = [
    `${all.length} laws over formats ran: ${own} transcripts of test/corpus`,
    `${pairs} ordered pairs of formats`,
    recordings === 0 ? 'no recordings (none at ../shared/fixtures)' : `${recordings} recordings`,
  ].join(', ')
  return { ran: all.length, least: recordings > 0 ? LEAST_WITH_RECORDINGS : LEAST, summary }
}
