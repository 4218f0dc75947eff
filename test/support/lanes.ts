import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Names the folder where lanes find the list of the test files, and mark the files they take. */
const LANES_VARIABLE = 'SLUICE_TEST_LANES'
const LIST = 'files.json'
/** Marks that a lane has begun with the files that wait. */
const WAITING_MARK = 'waiting'

type FileList = {
  readonly busy: readonly string[]
  /** They take little CPU time: the first lane begins with them, so that they run beside the others. */
  readonly waiting: readonly string[]
}

/** Lists the files for the lanes that are started afterwards. */
export function prepareLanes(list: FileList) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-lanes-'))
  const files = [...list.busy, ...list.waiting]
  writeFileSync(join(folder, LIST), JSON.stringify(list))
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
  const { busy, waiting }: FileList = JSON.parse(readFileSync(join(folder, LIST), 'utf8'))
  const files = [...busy, ...waiting].map((file, index) => ({ file, mark: join(folder, String(index)) }))
  const isFirst = take(join(folder, WAITING_MARK))
  const order = isFirst ? [...files.slice(busy.length), ...files.slice(0, busy.length)] : files
  for (const { file, mark } of order) if (take(mark)) yield file
}
