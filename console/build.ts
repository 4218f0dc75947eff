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
 * Builds the console into a new folder of `console/dist`. The gateway runs this with the digest of the sources;
 * by hand it needs no argument. When several gateways start on one checkout, one builds and the others wait.
 * The finished folder is put in place in one step.
 */

const HERE = fileURLToPath(new URL('.', import.meta.url))
const LOCK = join(HERE, 'dist.lock')
const DRAFT = join(HERE, `dist.${process.pid}`)
const OWNER = String(process.pid)
const STALE_LOCK_MS = 120_000

/** A killed build leaves its lock behind, with its process id in it. */
async function isAbandoned(): Promise<boolean> {
  const lockStat = await stat(LOCK).catch(() => undefined)
  if (lockStat === undefined) return false
  const owner = Number(await readFile(LOCK, 'utf8').catch(() => ''))
  return Date.now() - lockStat.mtimeMs > STALE_LOCK_MS || (owner > 0 && !isAlive(owner))
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** True when this process holds the lock; false when another process has just finished a build. */
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

/** Compresses at build time, so that the gateway does not compress at run time. */
async function compress(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!/\.(js|css|svg)$/.test(name)) continue
    const bytes = await readFile(join(directory, name))
    const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }
    await writeFile(join(directory, `${name}.br`), await brotli(bytes, quality))
    await writeFile(join(directory, `${name}.gz`), await zip(bytes))
  }
}

/** Removes the drafts of killed builds. */
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

/** Removes only the lock and the draft of this process. */
function leave(): void {
  rmSync(DRAFT, { recursive: true, force: true })
  if (existsSync(LOCK) && readFileSync(LOCK, 'utf8') === OWNER) rmSync(LOCK)
}

// A gateway that stops during the build stops the build too. The next start must not find its lock or draft.
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
