import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Names the folder where lanes find the list of the test files, and mark the files they take. */
export const LANES_VARIABLE = 'SLUICE_TEST_LANES'
const LIST = 'files.json'

const takenMark = (folder: string, index: number) => join(folder, `${index}.taken`)
const doneMark = (folder: string, index: number) => join(folder, `${index}.done`)

/** Lists the files for the lanes that are started afterwards, in the order in which they are taken. */
export function prepareLanes(files: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-lanes-'))
  writeFileSync(join(folder, LIST), JSON.stringify(files))
  return {
    folder,
    /** Removes the list. Returns the files that no lane has taken, or that ended with their lane. */
    end(): readonly string[] {
      const unfinished = files.filter((_, index) => !existsSync(doneMark(folder, index)))
      rmSync(folder, { recursive: true })
      return unfinished
    },
  }
}

/** True for the first lane that makes this mark. */
function mark(path: string): boolean {
  try {
    closeSync(openSync(path, 'wx'))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** The files that this lane takes: each time the next one that no lane has taken. A file is done when the next one is asked for. */
export function* filesOfLane(folder: string): Generator<string> {
  const files: readonly string[] = JSON.parse(readFileSync(join(folder, LIST), 'utf8'))
  for (const [index, file] of files.entries()) {
    if (!mark(takenMark(folder, index))) continue
    yield file
    mark(doneMark(folder, index))
  }
}
