import { once } from 'node:events'
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { parseArgs } from 'node:util'
import { buildProgram } from '../bundle.ts'
import { createLog } from '../src/app/log.ts'
import { createConsoleFiles } from '../src/host/console-files.ts'
import { CPU_VARIABLE, describeCosts } from './support/cpu-times.ts'
import { BOTH_VARIABLE, describeEngines, ENGINES_VARIABLE } from './support/engines.ts'
import { prepareFirstStarts } from './support/first-start.ts'
import { prepareLanes } from './support/lanes.ts'
import { countLaws, LAWS_VARIABLE } from './support/laws.ts'
import { POSTGRES_VARIABLE, startPostgres } from './support/postgres.ts'
import { PROGRAM_VARIABLE } from './support/program.ts'

/**
 * Runs the tests over one PostgreSQL: everything with short campaigns and a fixed seed, or, with --campaign,
 * only the campaigns at full length. File names as arguments limit the run to those. Suites that
 * usually run on one engine run on both with --both-engines, and in campaigns.
 */
const { values, positionals } = parseArgs({
  options: { campaign: { type: 'boolean' }, 'both-engines': { type: 'boolean' } },
  allowPositionals: true,
})

const all = values.campaign ? globSync('test/campaign/*.test.ts') : globSync('test/**/*.test.ts')
/** The slowest files start first, each in a process of its own, so that none of them runs alone at the end. */
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
/**
 * They mostly wait: for timeouts, retries and polls of the gateway. One process runs them beside the others from the
 * start, and takes little of the processors.
 */
const WAITING = [
  'app/error-table',
  'manage/alerts',
  'store-outage',
  'app/tracing',
  'console/alerts',
  'alert-workers',
  'app/shipping',
  'relay-bounds',
  'videos/polling',
  'http1/server',
  'relay/operations',
  'usage-edge-cases',
  'tampered-books',
  'rolled-back-books',
  'manage/explain',
  'app/alerts',
]
/** They measure the memory or the descriptors of their process, so each has a process of its own. */
const ALONE = ['media/speech', 'media/transcription', 'relay/faults']
const isNamed = (file: string, name: string) => file.endsWith(`/${name}.test.ts`)
const ORDER = [...LONGEST, ...WAITING]
const rankOf = (file: string) => {
  const rank = ORDER.findIndex(name => isNamed(file, name))
  return rank === -1 ? ORDER.length : rank
}
const files =
  positionals.length > 0 ? positionals : all.sort((a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1))

const [program, postgres] = await Promise.all([
  buildProgram(),
  startPostgres(),
  // Built once: otherwise every gateway that the tests start would build it.
  createConsoleFiles(createLog('warn')).prepare(),
])
// Processes that tests start run the program as it is shipped.
process.env[PROGRAM_VARIABLE] = program
process.env[POSTGRES_VARIABLE] = postgres.url
const firstStarts = await prepareFirstStarts()
// The program is started a few hundred times: the compile cache avoids compiling it each time.
process.env.NODE_COMPILE_CACHE = join(tmpdir(), 'sluice-test-compiled')
if (values.campaign) process.env.SLUICE_CAMPAIGN = '1'
if (values.campaign || values['both-engines']) process.env[BOTH_VARIABLE] = '1'
const countsFolder = mkdtempSync(join(tmpdir(), 'sluice-counts-'))
const lawsFile = join(countsFolder, 'laws.jsonl')
process.env[LAWS_VARIABLE] = lawsFile
const costsFile = join(countsFolder, 'cpu.jsonl')
writeFileSync(costsFile, '')
process.env[CPU_VARIABLE] = costsFile
const enginesFile = join(countsFolder, 'engines')
writeFileSync(enginesFile, '')
process.env[ENGINES_VARIABLE] = enginesFile

// More than two cores need: tests wait for clocks, polls and processes. Campaigns measure, so each runs alone.
const AT_ONCE = values.campaign ? 1 : 4
/** Files that are named run alone, and campaigns too; a complete run shares its other files among lanes. */
const isShared = positionals.length === 0 && !values.campaign
const isAlone = (file: string) => !isShared || [...LONGEST, ...ALONE].some(name => isNamed(file, name))
const lanes = isShared ? prepareLanes(files.filter(file => !isAlone(file))) : undefined
const LANE = 'test/lane.ts'
// The first lane starts with the files that wait. When these are done, so are the slowest files: it is one of four lanes.
const programs = lanes ? [LANE, ...files.filter(isAlone), ...Array(AT_ONCE - 1).fill(LANE)] : files

/**
 * Runs the programs and prints their tests. Returns the test files that failed, or the lane if it ended otherwise.
 * Uses the API and not `node --test`, which always runs files in the order of their names.
 */
async function runAndPrint(programs: readonly string[], concurrency: number): Promise<readonly string[]> {
  const running = run({
    files: programs,
    concurrency,
    execArgv: ['./test/support/promise-tracking.ts', './test/support/cpu-of-file.ts'].flatMap(file => [
      '--import',
      file,
    ]),
  })
  const failures = new Set<string>()
  // In a lane, each file is a test of the outermost level.
  running.on('test:fail', ({ nesting, name, file = name }) => {
    if (nesting === 0) failures.add(relative('.', name.endsWith('.test.ts') ? name : file))
  })
  let isPassed = false
  running.on('test:summary', ({ file, success }) => {
    if (file === undefined) isPassed = success
  })
  const report = running.compose(spec)
  report.pipe(process.stdout, { end: false })
  await once(report, 'end')
  return isPassed || failures.size > 0 ? [...failures] : [...programs]
}

/** More failures than this are not by chance. */
const MOST_REPEATED = 3
let failures = await runAndPrint(programs, lanes ? AT_ONCE + 1 : AT_ONCE)
const isRepeatable = (file: string) => file.endsWith('.test.ts')
if (isShared && failures.length > 0 && failures.length <= MOST_REPEATED && failures.every(isRepeatable)) {
  const unstable = failures
  console.log(`Repeating alone what failed beside other tests: ${unstable.join(', ')}`)
  failures = await runAndPrint(unstable, 1)
  if (failures.length === 0) console.log(`UNSTABLE, to be repaired: ${unstable.join(', ')}`)
}
await postgres.stop()
firstStarts.remove()
const left = lanes?.end() ?? []
if (left.length > 0) console.log(`not run: ${left.join(', ')}`)
const laws = countLaws(existsSync(lawsFile) ? readFileSync(lawsFile, 'utf8') : '')
const costs = describeCosts(readFileSync(costsFile, 'utf8'))
const engines = describeEngines(readFileSync(enginesFile, 'utf8'))
rmSync(countsFolder, { recursive: true })
if (isShared) console.log(`${costs}\n${engines}`)
if (laws.ran > 0) console.log(laws.summary)
// Law tests that do not run report nothing: a full run without them must not look like a success.
const LEAST_LAWS = 1_000
const isComplete = values.campaign || positionals.length > 0 || laws.ran >= LEAST_LAWS
if (!isComplete) console.log(`at least ${LEAST_LAWS} laws over formats must run`)
process.exit(failures.length === 0 && isComplete && left.length === 0 ? 0 : 1)
