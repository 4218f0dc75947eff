import { once } from 'node:events'
import { relative } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'

/** Test files or lanes, and how many of them run at the same time. */
export type Phase = { readonly programs: readonly string[]; readonly concurrency: number }

export type Outcome = {
  /** Test files that failed; a program that ended without a failed test is named itself. */
  readonly failures: readonly string[]
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  /** Lines of each file of the product, with --coverage. */
  readonly coverage: readonly FileCoverage[]
}

export type FileCoverage = {
  readonly path: string
  readonly totalLineCount: number
  readonly coveredLineCount: number
}

export type RunOptions = { readonly coverage?: boolean }

/**
 * A lane has a heap of some 200 MB, and V8 would collect all of it whenever buffers of 64 MB were allocated since the last time: a third of
 * the CPU time of a lane.
 */
const GARBAGE_COLLECTION = ['--external-memory-accounted-in-global-limit', '--initial-old-space-size=512']

/** A table of a thousand files, which coverage.ts summarizes. */
async function* withoutCoverage(events: AsyncIterable<{ readonly type: string }>) {
  for await (const event of events) if (event.type !== 'test:coverage') yield event
}

/**
 * Runs the programs and prints their tests.
 * Uses the API and not `node --test`, which always runs files in the order of their names.
 */
export async function runPhase(
  { programs, concurrency }: Phase,
  { coverage = false }: RunOptions = {},
): Promise<Outcome> {
  const running = run({
    files: [...programs],
    concurrency,
    coverage,
    coverageIncludeGlobs: ['src/**/*.ts'],
    // Threads load them too, also while a test has changed the directory.
    execArgv: [
      ...GARBAGE_COLLECTION,
      ...['promise-tracking', 'file-cost'].flatMap(name => ['--import', import.meta.resolve(`./${name}.ts`)]),
    ],
  })
  const failures = new Set<string>()
  // In a lane, each file is a test of the outermost level.
  running.on('test:fail', ({ nesting, name, file = name }) => {
    if (nesting === 0) failures.add(relative('.', name.endsWith('.test.ts') ? name : file))
  })
  let isPassed = false
  let counts = { passed: 0, failed: 0, skipped: 0 }
  running.on('test:summary', ({ file, success, counts: totals }) => {
    if (file !== undefined) return
    isPassed = success
    counts = {
      passed: totals.passed,
      failed: totals.tests - totals.passed - totals.skipped - totals.todo,
      skipped: totals.skipped,
    }
  })
  let files: readonly FileCoverage[] = []
  running.on('test:coverage', ({ summary }) => {
    files = summary.files
  })
  const report = running.compose(withoutCoverage).compose(spec)
  report.pipe(process.stdout, { end: false })
  await once(report, 'end')
  return { failures: isPassed || failures.size > 0 ? [...failures] : programs, ...counts, coverage: files }
}
