import { once } from 'node:events'
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { parseArgs } from 'node:util'
import { buildProgram } from '../bundle.ts'
import { createLog } from '../src/app/log.ts'
import { createConsoleFiles } from '../src/host/console-files.ts'
import { countLaws, LAWS_VARIABLE } from './support/laws.ts'
import { POSTGRES_VARIABLE, startPostgres } from './support/postgres.ts'
import { PROGRAM_VARIABLE } from './support/program.ts'

/**
 * Runs the tests over one PostgreSQL: everything with campaigns short and a fixed seed, or, with --campaign, the
 * campaigns alone and whole. Names of files may be given to run only those.
 */
const { values, positionals } = parseArgs({
  options: { campaign: { type: 'boolean' } },
  allowPositionals: true,
})

const all = values.campaign ? globSync('test/campaign/*.test.ts') : globSync('test/**/*.test.ts')
/** Files that take longest begin first, so that none of them runs alone at the end. */
const LONGEST = [
  'console/pages',
  'relay-outages',
  'start',
  'bad-bodies',
  'relay-points',
  'videos',
  'workers',
  'master-key',
  'console',
  'relay-kills',
  'console/playground',
  'backup',
  'relay/faults',
  'relay-formats',
  'videos/crash',
  'kill-storm',
  'videos/vendors',
  'authorization',
  'video-kill',
]
const rankOf = (file: string) => {
  const rank = LONGEST.findIndex(name => file.endsWith(`/${name}.test.ts`))
  return rank === -1 ? LONGEST.length : rank
}
const files =
  positionals.length > 0 ? positionals : all.sort((a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1))

const [program, postgres] = await Promise.all([
  buildProgram(),
  startPostgres(),
  // Once for all: every gateway that the tests start would begin to make it otherwise.
  createConsoleFiles(createLog('warn')).prepare(),
])
// Whatever is started as a process is the program as it is shipped.
process.env[PROGRAM_VARIABLE] = program
process.env[POSTGRES_VARIABLE] = postgres.url
// The program is started a few hundred times: what was compiled once need not be compiled again.
process.env.NODE_COMPILE_CACHE = join(tmpdir(), 'sluice-test-compiled')
if (values.campaign) process.env.SLUICE_CAMPAIGN = '1'
const lawsFolder = mkdtempSync(join(tmpdir(), 'sluice-laws-'))
const lawsFile = join(lawsFolder, 'laws.jsonl')
process.env[LAWS_VARIABLE] = lawsFile

// More than two cores need: tests wait for clocks, polls and processes about a third of the time. Campaigns measure, so each
// is alone.
const AT_ONCE = values.campaign ? 1 : 4
/** By the interface and not by `node --test`, which runs files in the order of their names whatever it is given. */
const running = run({ files: [...files], concurrency: AT_ONCE })
let isWhole = false
running.on('test:summary', ({ file, success }) => {
  if (file === undefined) isWhole = success
})
const told = running.compose(spec)
told.pipe(process.stdout)
await once(told, 'end')
await postgres.stop()
const laws = countLaws(existsSync(lawsFile) ? readFileSync(lawsFile, 'utf8') : '')
rmSync(lawsFolder, { recursive: true })
if (laws.ran > 0) console.log(laws.summary)
// Laws that do not run report nothing: a whole run without them must not look like a success.
const LEAST_LAWS = 1_000
const isComplete = values.campaign || positionals.length > 0 || laws.ran >= LEAST_LAWS
if (!isComplete) console.log(`at least ${LEAST_LAWS} laws over formats must run`)
process.exit(isWhole && isComplete ? 0 : 1)
