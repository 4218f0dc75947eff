import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { enableCompileCache, flushCompileCache } from 'node:module'
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
import { prepareMemoryFolder } from './support/memory-folder.ts'
import { POSTGRES_VARIABLE, startPostgres } from './support/postgres.ts'
import { PROGRAM_VARIABLE } from './support/program.ts'

/**
 * Runs the tests over one PostgreSQL: everything with short campaigns and a fixed seed, or, with --campaign,
 * only the campaigns at full length. File names as arguments limit the run to those. Suites that
 * usually run on one engine run on both with --both-engines, and in campaigns. With --check, types and lint are checked beside the
 * tests, and a failed check ends them. The architecture is one of the tests.
 */
const { values, positionals } = parseArgs({
  options: {
    campaign: { type: 'boolean' },
    'both-engines': { type: 'boolean' },
    check: { type: 'boolean' },
  },
  allowPositionals: true,
})

const pathsOf = (names: readonly string[]) => names.map(name => join('test', `${name}.test.ts`))
/** Files outside of test/campaign that have a full length too. */
const OTHER_CAMPAIGNS = pathsOf([
  'console/pages',
  'fleet/money',
  'import/scale',
  'wire/multipart-parts',
  'workers/workers',
])
const all = values.campaign
  ? [...globSync('test/campaign/*.test.ts'), ...OTHER_CAMPAIGNS]
  : globSync('test/**/*.test.ts')
/** The slowest files run first, so that none of them runs alone at the end. */
const LONGEST = pathsOf([
  'workers/workers',
  'console/console',
  'fleet/changes',
  'cli/backup',
  'campaign/relay-points',
  'cli/master-key',
  'campaign/relay-outages',
  'campaign/relay-kills',
  'app/rolling-restart',
  'cli/apply',
  'chat/relay-formats',
  'videos/videos',
  'fleet/money',
  'fleet/limits',
  'console/playground',
  'console/explanation',
  'campaign/kill-storm',
  'campaign/video-kill',
  'videos/crash',
  'videos/vendors',
  'simulation/fleet',
  'store/folds',
])
/** They mostly wait: for timeouts, retries and polls of the gateway. */
const WAITING = pathsOf([
  'app/error-table',
  'manage/alerts',
  'store/store-outage',
  'app/tracing',
  'console/alerts',
  'app/alert-workers',
  'app/shipping',
  'campaign/relay-bounds',
  'videos/polling',
  'http1/server',
  'relay/operations',
  'relay/usage-edge-cases',
  'attacks/disk/tampered-books',
  'attacks/disk/rolled-back-books',
  'manage/explain',
  'app/alerts',
])
/**
 * They have a process of their own: they measure its memory or descriptors, watch all gateways in it, or exceed the time that
 * a lane allows for a file on a busy machine.
 */
const ALONE = pathsOf([
  'app/start',
  'console/pages',
  'campaign/bad-bodies',
  'manage/authorization',
  'relay/faults',
  'media/transcription',
  'media/speech',
])
const named = [...LONGEST, ...WAITING, ...ALONE]
const missing = [...named, ...OTHER_CAMPAIGNS].filter(file => !existsSync(file))
if (missing.length > 0) throw new Error(`There is no ${missing.join(', ')}.`)
const files = positionals.length > 0 ? positionals : all.sort()

const checkFailed = new AbortController()

async function check(): Promise<void> {
  const child = spawn('npm run --silent check:types && npm run --silent check:lint', {
    shell: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.push(chunk))
  const [code] = await once(child, 'close')
  process.stdout.write(Buffer.concat(output))
  if (code !== 0) checkFailed.abort()
}
const checking = values.check ? check() : undefined

// The program is started a few hundred times: the compile cache avoids compiling it each time, also in the next run.
process.env.NODE_COMPILE_CACHE = join(tmpdir(), 'sluice-test-compiled')
enableCompileCache(process.env.NODE_COMPILE_CACHE)
const memoryFolder = prepareMemoryFolder()
const [program, postgres] = await Promise.all([
  buildProgram(),
  startPostgres(),
  // Built once: otherwise every gateway that the tests start would build it.
  createConsoleFiles(createLog('warn')).prepare(),
])
// Lanes start together, and write what they have compiled when they end: without this, each would compile everything.
await import('../src/app/gateway.ts')
flushCompileCache()
// Processes that tests start run the program as it is shipped.
process.env[PROGRAM_VARIABLE] = program
process.env[POSTGRES_VARIABLE] = postgres.url
const firstStarts = await prepareFirstStarts()
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

// More than two cores can use, because tests wait for clocks, polls and processes. Campaigns measure, so each runs alone.
const AT_ONCE = values.campaign ? 1 : 5
/** Files that are named run alone, and campaigns too; a complete run shares its other files among lanes. */
const isShared = positionals.length === 0 && !values.campaign
const others = files.filter(file => !named.includes(file))
const lanes = isShared ? prepareLanes({ busy: [...LONGEST, ...others], waiting: WAITING }) : undefined
const LANE = 'test/lane.ts'
// The first lane begins with the files that wait, beside the files that run alone. The other lanes start as those end.
const programs = lanes ? [LANE, ...ALONE, ...Array(AT_ONCE - 1).fill(LANE)] : files

/**
 * A lane has a heap of some 200 MB, and V8 would collect all of it whenever buffers of 64 MB were allocated since the last time: a third of
 * the CPU time of a lane.
 */
const GARBAGE_COLLECTION = ['--external-memory-accounted-in-global-limit', '--initial-old-space-size=512']

/**
 * Runs the programs and prints their tests. Returns the test files that failed, or all programs if the run failed without a failed test.
 * Uses the API and not `node --test`, which always runs files in the order of their names.
 */
async function runAndPrint(programs: readonly string[], concurrency: number): Promise<readonly string[]> {
  const running = run({
    files: programs,
    concurrency,
    signal: checkFailed.signal,
    // Threads load them too, also while a test has changed the directory.
    execArgv: [
      ...GARBAGE_COLLECTION,
      ...['promise-tracking', 'cpu-of-file'].flatMap(name => [
        '--import',
        import.meta.resolve(`./support/${name}.ts`),
      ]),
    ],
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
await checking
const isChecked = !checkFailed.signal.aborted
const isRepeatable = (file: string) => file.endsWith('.test.ts')
if (
  isChecked &&
  isShared &&
  failures.length > 0 &&
  failures.length <= MOST_REPEATED &&
  failures.every(isRepeatable)
) {
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
memoryFolder.remove()
if (isShared) console.log(`${costs}\n${engines}`)
if (laws.ran > 0) console.log(laws.summary)
// Law tests that do not run report nothing: a full run without them must not look like a success.
const LEAST_LAWS = 1_000
const isComplete = values.campaign || positionals.length > 0 || laws.ran >= LEAST_LAWS
if (!isComplete) console.log(`at least ${LEAST_LAWS} laws over formats must run`)
if (!isChecked) console.log('A check failed.')
process.exit(failures.length === 0 && isChecked && isComplete && left.length === 0 ? 0 : 1)
