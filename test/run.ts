import { spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createConsoleFiles } from '../src/console-files.ts'
import { createLog } from '../src/log.ts'
import { POSTGRES_VARIABLE, startPostgres } from './support/postgres.ts'

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
  'console-pages',
  'start',
  'bad-bodies',
  'relay-points',
  'videos',
  'workers',
  'master-key',
  'console',
  'relay-kills',
  'console-playground',
  'backup',
  'relay-faults',
  'relay-formats',
  'video-crash',
  'kill-storm',
  'video-vendors',
  'authorization',
  'video-kill',
]
const rankOf = (file: string) => {
  const rank = LONGEST.findIndex(name => file.endsWith(`/${name}.test.ts`))
  return rank === -1 ? LONGEST.length : rank
}
const files =
  positionals.length > 0 ? positionals : all.sort((a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1))

// Once for all: every gateway that the tests start would begin to make it otherwise.
await createConsoleFiles(createLog('warn')).prepare()
const postgres = await startPostgres()
// More than two cores need: tests wait for clocks, polls and processes about a third of the time.
const AT_ONCE = 4
const child = spawn(
  process.execPath,
  ['--test', `--test-concurrency=${AT_ONCE}`, '--test-reporter=spec', ...files],
  {
    stdio: 'inherit',
    env: {
      ...process.env,
      [POSTGRES_VARIABLE]: postgres.url,
      // The program is started a few hundred times: what was compiled once need not be compiled again.
      NODE_COMPILE_CACHE: join(tmpdir(), 'sluice-test-compiled'),
      ...(values.campaign ? { SLUICE_CAMPAIGN: '1' } : {}),
    },
  },
)
const code = await new Promise<number>(resolve => child.on('exit', status => resolve(status ?? 1)))
await postgres.stop()
process.exit(code)
