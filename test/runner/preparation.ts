import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { enableCompileCache, flushCompileCache } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildProgram } from '../../bundle.ts'
import { createLog } from '../../src/app/log.ts'
import { createConsoleFiles } from '../../src/host/console-files.ts'
import { ENGINES_VARIABLE } from '../support/engines.ts'
import { prepareFirstStarts } from '../support/first-start.ts'
import { LAWS_VARIABLE } from '../support/laws.ts'
import { POSTGRES_VARIABLE, startPostgres } from '../support/postgres.ts'
import { PROGRAM_VARIABLE } from '../support/program.ts'
import { SKIPS_VARIABLE } from '../support/programs.ts'
import { COSTS_VARIABLE } from './cost.ts'
import { prepareMemoryFolder } from './memory-folder.ts'

/** What processes of a run report, each in a file of lines that is named by a variable. */
const REPORTS = {
  laws: LAWS_VARIABLE,
  costs: COSTS_VARIABLE,
  engines: ENGINES_VARIABLE,
  skips: SKIPS_VARIABLE,
}
type Report = keyof typeof REPORTS

/** Makes what all test files share: the program, the console's files, PostgreSQL, new stores and files for reports. */
export async function prepareRun() {
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
  await import('../../src/app/gateway.ts')
  flushCompileCache()
  // Processes that tests start run the program as it is shipped.
  process.env[PROGRAM_VARIABLE] = program
  process.env[POSTGRES_VARIABLE] = postgres.url
  const firstStarts = await prepareFirstStarts()
  const reports = mkdtempSync(join(tmpdir(), 'sluice-reports-'))
  const pathOf = (report: string) => join(reports, `${report}.jsonl`)
  for (const [report, variable] of Object.entries(REPORTS)) {
    writeFileSync(pathOf(report), '')
    process.env[variable] = pathOf(report)
  }
  return {
    /** The lines that the tests have reported. */
    reported: (report: Report) => readFileSync(pathOf(report), 'utf8'),
    async remove(): Promise<void> {
      await postgres.stop()
      firstStarts.remove()
      rmSync(reports, { recursive: true })
      memoryFolder.remove()
    },
  }
}
