import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Names the folder where lanes find the list of the test files, and mark the files they take. */
const LANES_VARIABLE = 'SLUICE_TEST_LANES'
const LIST = 'files.json'

/** Lists the files for the lanes that are started afterwards. */
export function prepareLanes(files: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-lanes-'))
  writeFileSync(join(folder, LIST), JSON.stringify(files))
  process.env[LANES_VARIABLE] = folder
  return {
    /** Removes the list. Returns the files that no lane has taken. */
    end(): readonly string[] {
      const left = files.filter((_, index) => !existsSync(join(folder, String(index))))
      rmSync(folder, { recursive: true })
      return left
    },
  }
}

function take(mark: string): boolean {
  try {
    closeSync(openSync(mark, 'wx'))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** The files that this lane takes: each time the next one that no lane has taken. */
export function* filesOfLane(): Generator<string> {
  const folder = process.env[LANES_VARIABLE]
  if (folder === undefined) return
  const files: string[] = JSON.parse(readFileSync(join(folder, LIST), 'utf8'))
  for (const [index, file] of files.entries()) if (take(join(folder, String(index)))) yield file
}
