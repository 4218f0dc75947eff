import { fileURLToPath } from 'node:url'

/** Says where the program lies that tests start as a process. */
export const PROGRAM_VARIABLE = 'SLUICE_TEST_PROGRAM'

/** Whoever puts something around the methods of a package must start this: a bundle has its packages inside. */
export const SOURCE = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

/** From source where a file of tests is run by itself, so that nobody has to build before. */
export const PROGRAM = process.env[PROGRAM_VARIABLE] ?? SOURCE
