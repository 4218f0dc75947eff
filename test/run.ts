import { parseArgs } from 'node:util'
import { startBusyLoops } from './runner/busy-loops.ts'
import { changedFiles, reachOf } from './runner/changes.ts'
import { passesChecks } from './runner/checks.ts'
import { describeCosts, readCosts } from './runner/cost.ts'
import { describeCoverage } from './runner/coverage.ts'
import { describeSystemSuite, filesOf, hasBrowser, hasFleet, hasOwnProcess } from './runner/files.ts'
import { LANES_VARIABLE, prepareLanes } from './runner/lanes.ts'
import { recordTimes, slowestFirst } from './runner/order.ts'
import { prepareRun } from './runner/preparation.ts'
import { type Outcome, type Phase, runPhase } from './runner/programs.ts'
import { BOTH_VARIABLE, describeEngines } from './support/engines.ts'
import { countLaws, LAW_SAMPLE_VARIABLE } from './support/laws.ts'
import { describeSkips } from './support/programs.ts'

/**
 * Runs the tests over one PostgreSQL. docs/development.md describes the two suites and the options. File names as arguments limit
 * the run to those.
 */
const { values, positionals } = parseArgs({
  options: {
    /** The files of test/system, and not the others. */
    system: { type: 'boolean' },
    /** The files with a long form, in that form. */
    campaign: { type: 'boolean' },
    /** What a change can reach. */
    changed: { type: 'boolean' },
    /** The named files five times, on a busy machine. */
    steady: { type: 'boolean' },
    /** Suites that usually run on one engine run on both. */
    'both-engines': { type: 'boolean' },
    /** Types and lint first: they fail fast. */
    check: { type: 'boolean' },
    coverage: { type: 'boolean' },
    /** Writes the costs of the files to test/times.json. */
    record: { type: 'boolean' },
  },
  allowPositionals: true,
})
if (values.steady && positionals.length === 0) throw new Error('--steady needs the names of test files.')

const suite = values.campaign ? 'campaign' : values.system ? 'system' : 'test'
const isNamed = positionals.length > 0
const isWhole = !isNamed && !values.changed
const suiteFiles = filesOf(suite)
const reach = values.changed ? reachOf(changedFiles(), suiteFiles) : { files: suiteFiles, samplesLaws: false }
const files = isNamed ? positionals : reach.files

const LANE = 'test/runner/lane.ts'
/** More than two cores can use, because tests wait for clocks, polls and processes. */
const LANES = 5
const BROWSERS = 2
const SYSTEM_FILES = 3
const STEADY_RUNS = 5
const BUSY_LOOPS = 8

/** Files in a process each. Campaigns measure, so each runs alone. */
function phasesOfFiles(all: readonly string[]): readonly Phase[] {
  if (values.campaign || values.steady) return [{ programs: all, concurrency: 1 }]
  const ordered = slowestFirst(all)
  const fleets = ordered.filter(hasFleet)
  const browsers = ordered.filter(file => !hasFleet(file) && hasBrowser(file))
  const others = ordered.filter(file => !hasFleet(file) && !hasBrowser(file))
  return [
    { programs: others, concurrency: SYSTEM_FILES },
    { programs: browsers, concurrency: BROWSERS },
    { programs: fleets, concurrency: 1 },
  ]
}

async function runPhases(phases: readonly Phase[]): Promise<Outcome> {
  const outcomes: Outcome[] = []
  for (const phase of phases)
    if (phase.programs.length > 0)
      outcomes.push(await runPhase(phase, { coverage: values.coverage ?? false }))
  const sum = (count: (outcome: Outcome) => number) =>
    outcomes.reduce((total, outcome) => total + count(outcome), 0)
  return {
    failures: outcomes.flatMap(({ failures }) => failures),
    passed: sum(({ passed: passedCount }) => passedCount),
    failed: sum(({ failed }) => failed),
    skipped: sum(({ skipped }) => skipped),
    coverage: outcomes.flatMap(({ coverage }) => coverage),
  }
}

/** Most files share a few processes: see lane.ts. */
async function runInLanes(all: readonly string[]): Promise<Outcome> {
  const alone = all.filter(hasOwnProcess)
  const lanes = prepareLanes(slowestFirst(all.filter(file => !hasOwnProcess(file))))
  process.env[LANES_VARIABLE] = lanes.folder
  const programs = [...Array<string>(LANES).fill(LANE), ...slowestFirst(alone)]
  const outcome = await runPhases([{ programs, concurrency: LANES + 1 }])
  const failures = outcome.failures.filter(file => file !== LANE)
  const unfinished = lanes.end()
  return { ...outcome, failures: [...new Set([...failures, ...unfinished])] }
}

async function runSteadily(all: readonly string[]): Promise<Outcome> {
  const loops = startBusyLoops(BUSY_LOOPS)
  const outcome = await runPhases(Array.from({ length: STEADY_RUNS }, () => phasesOfFiles(all)).flat())
  await loops.stop()
  return outcome
}

/** More failures than this are not by chance. */
const MOST_REPEATED = 20
const REPETITIONS = 2

/** Repeats what failed beside other tests, each file alone. */
async function repeatFailures({ failures }: Outcome): Promise<Outcome> {
  let outcome = await runPhases([{ programs: failures, concurrency: 1 }])
  for (let repetition = 1; repetition < REPETITIONS && outcome.failures.length > 0; repetition++)
    outcome = await runPhases([{ programs: outcome.failures, concurrency: 1 }])
  return outcome
}

const startedMs = Date.now()
if (values.campaign) process.env.SLUICE_CAMPAIGN = '1'
if (values.campaign || values['both-engines']) process.env[BOTH_VARIABLE] = '1'
if (reach.samplesLaws) process.env[LAW_SAMPLE_VARIABLE] = '1'
const [preparation, isChecked] = await Promise.all([prepareRun(), values.check ? passesChecks() : true])
if (!isChecked) {
  await preparation.remove()
  console.log('A check failed. No test was run.')
  process.exit(1)
}

const first = values.steady
  ? await runSteadily(files)
  : suite === 'test' && !isNamed
    ? await runInLanes(files)
    : await runPhases(phasesOfFiles(files))
const isRepeated =
  !isNamed && !values.campaign && first.failures.length > 0 && first.failures.length <= MOST_REPEATED
if (isRepeated) console.log(`Repeating alone what failed beside other tests: ${first.failures.join(', ')}`)
const last = isRepeated ? await repeatFailures(first) : first
const unstable = first.failures.filter(file => !last.failures.includes(file))

const costs = readCosts(preparation.reported('costs'))
const laws = countLaws(preparation.reported('laws'))
const engines = describeEngines(preparation.reported('engines'))
const skips = describeSkips(preparation.reported('skips'))
await preparation.remove()
if (values.record && !isNamed) recordTimes(costs)
console.log(describeCosts(costs))
if (values.coverage) console.log(describeCoverage(first.coverage))
if (!isNamed) console.log(engines)
if (laws.ran > 0) console.log(laws.summary)
/** Law tests that do not run report nothing: a whole run without them must not look like a success. */
const hasLaws = suite !== 'test' || !isWhole || laws.ran >= laws.least
if (!hasLaws) console.log(`At least ${laws.least} laws over formats must run.`)
if (skips !== '') console.log(skips)
if (suite === 'test' && !isNamed) console.log(describeSystemSuite())
if (last.failures.length > 0) console.log(`Failed: ${last.failures.join(', ')}`)
console.log(`${Math.round((Date.now() - startedMs) / 1_000)} s in all`)
console.log(`${first.passed} passed, ${last.failed} failed, ${first.skipped} skipped`)
if (unstable.length > 0) console.log(`UNSTABLE: ${unstable.join(', ')}`)
process.exit(last.failures.length === 0 && hasLaws ? 0 : 1)
