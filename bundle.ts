import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { builtName } from './src/store/program-file.ts'

/**
 * Makes `dist`, the program as it is shipped: a few files instead of fifteen hundred, so that it starts in half the time
 * and takes a quarter less memory. It does what the source does, file for file, and needs the same packages beside it.
 */

const ROOT = fileURLToPath(new URL('.', import.meta.url))
const DIST = join(ROOT, 'dist')
const DRAFT = join(ROOT, `dist.${process.pid}`)

/** What is run as a process or a thread, by its path from `src`. */
const PROGRAMS = [
  'main',
  'store/sqlite-thread',
  'relay/token-count-thread',
  'cli/backup-thread',
  'cli/journal-thread',
  '../simulator/main',
]

/** Left where they are: they are loaded when they are needed, or bring files that they look for beside themselves. */
const APART = [
  'pino',
  'pino-pretty',
  'pg',
  'google-auth-library',
  'gpt-tokenizer',
  '@fastify/swagger-ui',
  '@pydantic/genai-prices',
  '@smithy/eventstream-codec',
  '@smithy/signature-v4',
  '@aws-crypto/sha256-js',
]
const isApart = (id: string) =>
  id.startsWith('node:') || APART.some(name => id === name || id.startsWith(`${name}/`))

/** Answers where the program is then started. */
export async function buildProgram(): Promise<string> {
  const bundle = await rolldown({
    cwd: ROOT,
    input: Object.fromEntries(PROGRAMS.map(path => [builtName(path), join('src', `${path}.ts`)])),
    platform: 'node',
    external: isApart,
    logLevel: 'warn',
  })
  try {
    await bundle.write({ dir: DRAFT, format: 'esm', chunkFileNames: 'part-[hash].js', sourcemap: true })
    await rm(DIST, { recursive: true, force: true })
    await rename(DRAFT, DIST)
    return join(DIST, `${builtName('main')}.js`)
  } finally {
    await bundle.close()
    await rm(DRAFT, { recursive: true, force: true })
  }
}

if (import.meta.main) await buildProgram()
