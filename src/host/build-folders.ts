import { createHash } from 'node:crypto'
import type { Dirent } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'

/**
 * What is built, the program or its console, has a folder of its own for every build, named by what is in it. Whoever runs
 * keeps the files that he was started with, whatever is built meanwhile.
 */

/** So many builds stay, the newest among them: who still runs an older one must be started anew. */
const KEPT = 3
const BUILD = /^[0-9a-f]{16}$/
const IGNORED = '.npmignore'

export const fullName = ({ parentPath, name }: Dirent) => join(parentPath, name)

async function nameOf(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter(entry => entry.isFile()).map(fullName)
  const hash = createHash('sha256')
  for (const file of files.sort()) hash.update(`${relative(folder, file)}\0`).update(await readFile(file))
  return hash.digest('hex').slice(0, 16)
}

/** Whoever reads the file meanwhile finds the old one or the new one. */
async function replaceFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${process.pid}`
  await writeFile(draft, text)
  await rename(draft, path)
}

/** The names of the builds there are, newest first. */
export async function buildsIn(directory: string): Promise<readonly string[]> {
  const entries = await readdir(directory).catch(error => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const dated = await Promise.all(
    entries
      .filter(entry => BUILD.test(entry))
      .map(async name => {
        const found = await stat(join(directory, name)).catch(() => undefined)
        // One that is being taken away is the oldest of all.
        return { name, mtimeMs: found?.mtimeMs ?? 0 }
      }),
  )
  return dated.sort((a, b) => b.mtimeMs - a.mtimeMs).map(({ name }) => name)
}

/** A folder of that name has the same in it, file for file, and may be in use: it stays. */
const IS_THERE = ['ENOTEMPTY', 'EEXIST', 'EPERM']

/** Makes a draft the newest build. `starter` is the file that starts it, where there is one. Answers the build's name. */
export async function publish(
  draft: string,
  directory: string,
  starter?: { readonly file: string; textFor(name: string): string },
): Promise<string> {
  const name = await nameOf(draft)
  const folder = join(directory, name)
  await mkdir(directory, { recursive: true })
  await rename(draft, folder).catch(error => {
    if (!IS_THERE.includes(error.code)) throw error
  })
  const now = new Date()
  await utimes(folder, now, now)
  if (starter !== undefined) await replaceFile(join(directory, starter.file), starter.textFor(name))
  const older = (await buildsIn(directory)).filter(other => other !== name)
  for (const gone of older.slice(KEPT - 1)) await rm(join(directory, gone), { recursive: true, force: true })
  // A package carries the newest alone.
  const carried = [name, starter?.file, IGNORED]
  const others = (await readdir(directory)).filter(entry => !carried.includes(entry))
  await replaceFile(join(directory, IGNORED), others.map(entry => `/${entry}\n`).join(''))
  return name
}
