import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Names the path of the program that tests start as a process. */
export const PROGRAM_VARIABLE = 'SLUICE_TEST_PROGRAM'

/** Tests that wrap methods of a package must start this one: a bundle contains its packages. */
export const SOURCE = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

/** Run from source if a single test file runs by itself, so that no build is needed first. */
export const PROGRAM = process.env[PROGRAM_VARIABLE] ?? SOURCE

/** Names the path of a single executable, which tests then start instead of the program. */
export const BINARY_VARIABLE = 'SLUICE_TEST_BINARY'

const binary = process.env[BINARY_VARIABLE]

/**
 * Processes of tests live for seconds: with these options of V8 they take a fifth less CPU time in total. They collect garbage less
 * often and in one thread, and optimize only what runs often.
 */
const SHORT_LIFE = [
  '--min-semi-space-size=16',
  '--single-threaded-gc',
  '--no-opt',
  '--invocation-count-for-maglev=2000',
]

/** Starts a file of the program as a process. */
export const commandOf = (file: string): readonly string[] => [process.execPath, ...SHORT_LIFE, file]

/** The command that tests start, without its arguments. */
export const COMMAND: readonly string[] = binary ? [resolve(binary)] : commandOf(PROGRAM)
