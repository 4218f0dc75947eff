import { appendFileSync } from 'node:fs'

/** Suites about statements, migrations and money run on both engines, and so do those that differ between them. */
export const ENGINES = ['sqlite', 'postgres'] as const
export type EngineName = (typeof ENGINES)[number]

/** If set, every suite that uses the store runs on both engines. */
export const BOTH_VARIABLE = 'SLUICE_TEST_BOTH_ENGINES'
/** Names a file that collects the engines of the suites that run on one, over all processes of a run. */
export const ENGINES_VARIABLE = 'SLUICE_TEST_ENGINES'

/**
 * The engines of a suite whose results do not depend on the engine, and whose statements other suites run on the other one:
 * this engine, or both with `--both-engines`. Half of these suites use each engine.
 */
export function oneEngine(engine: EngineName): readonly EngineName[] {
  if (process.env[BOTH_VARIABLE] !== undefined) return ENGINES
  const path = process.env[ENGINES_VARIABLE]
  if (path !== undefined) appendFileSync(path, `${engine}\n`)
  return [engine]
}

/** How many suites ran on one engine. */
export function describeEngines(lines: string): string {
  const names = lines.split('\n')
  const count = (engine: EngineName) => names.filter(name => name === engine).length
  return `Suites on one engine: ${count('sqlite')} on SQLite, ${count('postgres')} on PostgreSQL (--both-engines runs them on both).`
}
