import { createHash } from 'node:crypto'
import type { Dirent } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'

// Every build of the program or the console has its own folder, named by a hash of its content. So a new build does not
// change the files of a running process.

/** The newest builds that are kept. A process that still runs an older one must be restarted. */
const MAX_BUILDS = 3
const BUILD = /^[0-9a-f]{16}$/
const IGNORE_FILE = '.npmignore'

export const fullName = ({ parentPath, name }: Dirent) => join(parentPath, name)

async function nameOf(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter(entry => entry.isFile()).map(fullName)
  const hash = createHash('sha256')
  for (const file of files.sort()) hash.update(`${relative(folder, file)}\0`).update(await readFile(file))
  return hash.digest('hex').slice(0, 16)
}

/** Replaces a file atomically: a concurrent reader sees the old content or the new one. */
async function replaceFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${process.pid}`
  await writeFile(draft, text)
  await rename(draft, path)
}

/** The names of the builds, newest first. */
export async function buildsIn(directory: string): Promise<readonly string[]> {
  const entries = await readdir(directory).catch(error => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const dated = await Promise.all(
    entries
      .filter(entry => BUILD.test(entry))
      .map(async name => {
        const folder = await stat(join(directory, name)).catch(() => undefined)
        // A folder that is just being deleted counts as the oldest.
        return { name, mtimeMs: folder?.mtimeMs ?? 0 }
      }),
  )
  return dated.sort((a, b) => b.mtimeMs - a.mtimeMs).map(({ name }) => name)
}

/** Error codes of a rename to an existing folder. That folder has the same content and may be in use, so it stays. */
const EXISTS_CODES = ['ENOTEMPTY', 'EEXIST', 'EPERM']

/** Makes a draft the newest build and returns the build's name. `starter` is the file that starts it, if there is one. */
export async function publish(
  draft: string,
  directory: string,
  starter?: { readonly file: string; textFor(name: string): string },
): Promise<string> {
  const name = await nameOf(draft)
  const folder = join(directory, name)
  await mkdir(directory, { recursive: true })
  await rename(draft, folder).catch(error => {
    if (!EXISTS_CODES.includes(error.code)) throw error
  })
  const now = new Date()
  await utimes(folder, now, now)
  if (starter !== undefined) await replaceFile(join(directory, starter.file), starter.textFor(name))
  const older = (await buildsIn(directory)).filter(other => other !== name)
  for (const expired of older.slice(MAX_BUILDS - 1))
    await rm(join(directory, expired), { recursive: true, force: true })
  // The npm package contains the newest build only.
  const published = [name, starter?.file, IGNORE_FILE]
  const others = (await readdir(directory)).filter(entry => !published.includes(entry))
  await replaceFile(join(directory, IGNORE_FILE), others.map(entry => `/${entry}\n`).join(''))
  return name
}
