import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import { buildsIn, fullName } from './build-folders.ts'
import { isBuilt, PACKAGE } from './program-file.ts'

const ROOT = fileURLToPath(PACKAGE)

/** The sources of the console. Changes of other files do not make a build stale. */
const SOURCES = {
  directories: ['console/public', 'console/src', 'src/manage/contract', 'src/domain'],
  files: [
    'console/index.html',
    'console/lucide.ts',
    'console/route-table.ts',
    'console/vite.config.ts',
    'package-lock.json',
  ],
} as const
/** The folder of all builds, with a folder for each. */
export const CONSOLE_BUILDS = join(ROOT, 'console/dist')
const BUILDER = join(ROOT, 'console/build.ts')
const INSTALLER = join(ROOT, 'packaging/checkout/install.js')
/** The file of a build that contains the digest of its sources. */
export const SOURCE_DIGEST_FILE = 'made-from'

export async function digestOfSources(): Promise<string> {
  const listings = await Promise.all(
    SOURCES.directories.map(directory =>
      readdir(join(ROOT, directory), { recursive: true, withFileTypes: true }),
    ),
  )
  const inside = listings.flat().filter(entry => entry.isFile())
  const files = [...SOURCES.files.map(file => join(ROOT, file)), ...inside.map(fullName)].sort()
  const stats = await Promise.all(files.map(file => stat(file)))
  const hash = createHash('sha256')
  for (const [index, { size, mtimeMs }] of stats.entries())
    hash.update(`${relative(ROOT, files[index] ?? '')}\0${size}\0${mtimeMs}\0`)
  return hash.digest('hex')
}

/** The folder of the build of these sources. */
export async function findBuild(digest: string, directory = CONSOLE_BUILDS): Promise<string | undefined> {
  for (const name of await buildsIn(directory)) {
    const sourceDigest = await readFile(join(directory, name, SOURCE_DIGEST_FILE), 'utf8').catch(
      () => undefined,
    )
    if (sourceDigest === digest) return join(directory, name)
  }
  return undefined
}

/** A build of the program is made together with one of the console, and does not look at the sources: that takes 50 ms of a start. */
const followsSources = () => !isBuilt && existsSync(BUILDER)

let startDigest: Promise<string | undefined> | undefined

/** The digest of the sources that this process was started with, for all its gateways: tests run many in a process. */
function digestAtStart(): Promise<string | undefined> {
  // `prepare` reports sources that cannot be read; the newest build is served then.
  startDigest ??= digestOfSources().catch(() => undefined)
  return startDigest
}

/**
 * Lists the folders of the builds. The first is the build of the sources that this gateway was started with, or else the
 * newest. The others are listed too, because browsers may still have pages open that another gateway has served.
 */
export function createConsoleBuilds(directory = CONSOLE_BUILDS): () => Promise<readonly string[]> {
  const started = followsSources() ? digestAtStart() : undefined
  return async () => {
    const digest = await started
    const folders = (await buildsIn(directory)).map(name => join(directory, name))
    const own = digest === undefined ? undefined : await findBuild(digest, directory)
    return own === undefined ? folders : [own, ...folders.filter(folder => folder !== own)]
  }
}

/**
 * The console's files. The published package contains them. In a checkout, the first start installs the packages of the console
 * and builds it, in separate processes when the gateway is ready, so that users need no build step.
 */
export function createConsoleFiles(log: Logger) {
  let builder: ChildProcess | undefined
  let isClosed = false

  const run = (file: string, argument: string) =>
    new Promise<void>((resolve, reject) => {
      if (isClosed) throw new Error('the gateway stops')
      const child = spawn(process.execPath, [file, argument], { stdio: ['ignore', 'ignore', 'pipe'] })
      builder = child
      let output = ''
      child.stderr?.setEncoding('utf8').on('data', (text: string) => {
        output = (output + text).slice(-2_000)
      })
      child.once('error', reject)
      child.once('exit', code =>
        code === 0 ? resolve() : reject(new Error(output.trim() || `exit ${code}`)),
      )
    }).finally(() => {
      builder = undefined
    })

  return {
    /** Builds the files if they are missing or, unless the program is built, older than their sources. */
    async prepare(): Promise<void> {
      if (!existsSync(BUILDER)) return
      try {
        if (isBuilt && (await buildsIn(CONSOLE_BUILDS)).length > 0) return
        const digest = await digestOfSources()
        if ((await findBuild(digest)) !== undefined) return
        const startedMs = Date.now()
        await run(INSTALLER, 'console')
        await run(BUILDER, digest)
        log.info({ ms: Date.now() - startedMs }, 'The console was built.')
      } catch (error) {
        if (isClosed) return
        log.warn({ err: error }, 'The console could not be built. The next start tries again.')
      }
    },
    /** Aborts a build: a gateway that stops does not wait for it. */
    close(): void {
      isClosed = true
      builder?.kill()
      builder?.unref()
      builder?.stderr?.destroy()
    },
  }
}
