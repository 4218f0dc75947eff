import { fileURLToPath } from 'node:url'

/** Says where the program lies that tests start as a process. */
export const PROGRAM_VARIABLE = 'SLUICE_TEST_PROGRAM'

/** From source where a file of tests is run by itself, so that nobody has to build before. */
export const PROGRAM =
  process.env[PROGRAM_VARIABLE] ?? fileURLToPath(new URL('../../src/main.ts', import.meta.url))
