import { fileURLToPath } from 'node:url'

/** Names the path of the program that tests start as a process. */
export const PROGRAM_VARIABLE = 'SLUICE_TEST_PROGRAM'

/** Tests that wrap methods of a package must start this one: a bundle contains its packages. */
export const SOURCE = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

/** Run from source if a single test file runs by itself, so that no build is needed first. */
export const PROGRAM = process.env[PROGRAM_VARIABLE] ?? SOURCE
