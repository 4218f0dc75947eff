import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Names the path of the program that tests start as a process. */
export const PROGRAM_VARIABLE = 'SLUICE_TEST_PROGRAM'

/** Tests that wrap methods of a package must start this one: a bundle contains its packages. */
const SOURCE = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

/** Run from source if a single test file runs by itself, so that no build is needed first. */
export const PROGRAM = process.env[PROGRAM_VARIABLE] ?? SOURCE

/** Names the path of a single executable, which tests then start instead of the program. */
export const BINARY_VARIABLE = 'SLUICE_TEST_BINARY'

const binary = process.env[BINARY_VARIABLE]

/**
 * Processes of tests live for seconds: with these options of V8 they take a tenth less CPU time in total. They collect garbage less
 * often and in one thread. With options for the compilers, Node.js could not use the code that is compiled in its executable.
 */
const SHORT_LIFE = ['--min-semi-space-size=16', '--single-threaded-gc']

type CommandOptions = {
  /** Memory or CPU time of the process is measured, so V8 has its usual options. */
  readonly isMeasured?: boolean | undefined
  /** Runs the source, and not a build. */
  readonly isSource?: boolean
}

/** The command that tests start, without its arguments. A campaign measures, and takes longer. */
export function commandOf({
  isMeasured = process.env.SLUICE_CAMPAIGN !== undefined,
  isSource = false,
}: CommandOptions = {}): readonly string[] {
  if (binary && !isSource) return [resolve(binary)]
  return [process.execPath, ...(isMeasured ? [] : SHORT_LIFE), isSource ? SOURCE : PROGRAM]
}
