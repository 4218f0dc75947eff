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

/** The command that tests start, without its arguments. */
export const COMMAND: readonly string[] = binary ? [resolve(binary)] : [process.execPath, PROGRAM]
