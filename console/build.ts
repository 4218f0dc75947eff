import { existsSync, readFileSync, rmSync } from 'node:fs'
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { publish } from '../src/host/build-folders.ts'
import { CONSOLE_BUILDS, digestOfSources, findBuild, SOURCE_DIGEST_FILE } from '../src/host/console-files.ts'

/**
 * Makes a folder in `console/dist`. Called by the gateway with the digest of the sources, or by hand without one. Several
 * gateways may start at once on one checkout: one builds, the others wait; the finished folder is put in place as a whole.
 */

const HERE = fileURLToPath(new URL('.', import.meta.url))
const LOCK = join(HERE, 'dist.lock')
const DRAFT = join(HERE, `dist.${process.pid}`)
const OWNER = String(process.pid)
const STALE_LOCK_MS = 120_000

/** A builder that was killed leaves its lock behind, with its number in it. */
async function isAbandoned(): Promise<boolean> {
  const found = await stat(LOCK).catch(() => undefined)
  if (found === undefined) return false
  const owner = Number(await readFile(LOCK, 'utf8').catch(() => ''))
  return Date.now() - found.mtimeMs > STALE_LOCK_MS || (owner > 0 && !isAlive(owner))
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** True when the lock is ours; false when somebody else has just built. */
async function takeLock(digest: string): Promise<boolean> {
  for (;;) {
    try {
      await writeFile(LOCK, OWNER, { flag: 'wx' })
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    if (await isAbandoned()) {
      await rm(LOCK, { recursive: true, force: true })
      continue
    }
    await setTimeout(200)
    if ((await findBuild(digest)) !== undefined) return false
  }
}

const brotli = promisify(brotliCompress)
const zip = promisify(gzip)

/** Compressed once here, so that the gateway never spends a moment on it. */
async function compress(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!/\.(js|css|svg)$/.test(name)) continue
    const bytes = await readFile(join(directory, name))
    const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }
    await writeFile(join(directory, `${name}.br`), await brotli(bytes, quality))
    await writeFile(join(directory, `${name}.gz`), await zip(bytes))
  }
}

/** What builders that were killed had begun. */
async function sweep(): Promise<void> {
  for (const name of await readdir(HERE)) {
    const owner = Number(/^dist\.(\d+)$/.exec(name)?.[1])
    if (owner > 0 && !isAlive(owner)) await rm(join(HERE, name), { recursive: true, force: true })
  }
}

async function build(digest: string): Promise<void> {
  await sweep()
  const { build } = await import('vite')
  await build({ root: HERE, logLevel: 'error', build: { outDir: DRAFT, emptyOutDir: true } })
  await compress(join(DRAFT, 'assets'))
  await writeFile(join(DRAFT, SOURCE_DIGEST_FILE), digest)
  await publish(DRAFT, CONSOLE_BUILDS)
}

/** Takes away what is ours, and only that. */
function leave(): void {
  rmSync(DRAFT, { recursive: true, force: true })
  if (existsSync(LOCK) && readFileSync(LOCK, 'utf8') === OWNER) rmSync(LOCK)
}

// A gateway that stops before its console is made takes the builder along: the next one must not find its traces.
for (const signal of ['SIGTERM', 'SIGINT'] as const)
  process.once(signal, () => {
    leave()
    process.exit(1)
  })
const digest = process.argv[2] ?? (await digestOfSources())
if (await takeLock(digest)) {
  try {
    await build(digest)
  } finally {
    leave()
  }
}
