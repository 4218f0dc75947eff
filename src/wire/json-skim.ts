import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { JsonError, parseCounted, parseMeasured } from './json.ts'
import { keyOf, type Member, topLevel } from './json-edit.ts'
import type { Cut } from './json-scan.ts'
import { parseScanned, SLICED_BYTES, scanInSlices } from './json-slices.ts'

/** Bodies up to this size are parsed in one go: even the worst of them is fast. */
export const LARGE_BYTES = SLICED_BYTES
/** Above this size, operations that need only the lengths of long texts get a LongText in the place of each. */
export const SKIM_BYTES = 1_048_576
const HEAD_BYTES = 32
const MAX_NOTE_BYTES = 80
const CUTS_AT_ONCE = 4_096

/** Random, so that no client can forge a text of another length. */
const NOTE = `long ${randomUUID().slice(0, 13)}`

/** Stands for a long text that was not parsed. */
export type LongText = {
  /** Its length in JSON, which is never less than that of the text itself. */
  readonly bytes: number
  /** Its first characters, up to the first that needs an escape or is not ASCII. */
  readonly head: string
}

export function longText(value: unknown): LongText | undefined {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, NOTE)) return undefined
  const note = (value as Record<string, string>)[NOTE] ?? ''
  const space = note.indexOf(' ')
  return { bytes: Number(note.slice(0, space)), head: note.slice(space + 1) }
}

export type JsonRead = {
  readonly value: unknown
  readonly members: readonly Member[]
  /** The number of names that the value has if no object repeats one. */
  readonly names: number
}

/**
 * Parses a body of any size without blocking the event loop. `isSkimmed`: long texts may become a LongText. The members
 * are those of the outermost object; none if the body is no object. Throws a JsonError.
 */
export async function readJson(bytes: Buffer, isSkimmed: boolean): Promise<JsonRead> {
  if (bytes.length <= LARGE_BYTES) {
    const { value, names } = parseCounted(bytes)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return { value, members: isObject ? topLevel(bytes) : [], names }
  }
  const { cuts, places, nameCount } = await scanInSlices(bytes)
  if (!isUtf8(bytes)) throw new JsonError('is not valid UTF-8')
  const isSkeleton = isSkimmed && bytes.length > SKIM_BYTES
  const value = isSkeleton ? parseMeasured(await skeletonOf(bytes, cuts)) : await parseScanned(bytes, cuts)
  // The names are read after parsing: only then is it certain that they are names.
  const members = places.map(({ start, nameEnd, valueStart, end }) => ({
    key: keyOf(bytes, start, nameEnd),
    start,
    valueStart,
    end,
  }))
  // Each LongText is an object with one name.
  return { value, members, names: nameCount + (isSkeleton ? cuts.length : 0) }
}

/** The same JSON with a LongText in the place of each long text, built in slices. */
async function skeletonOf(bytes: Buffer, cuts: readonly Cut[]): Promise<Buffer> {
  const cutBytes = cuts.reduce((sum, { start, end }) => sum + end - start, 0)
  const skeleton = Buffer.allocUnsafe(bytes.length - cutBytes + cuts.length * MAX_NOTE_BYTES)
  let from = 0
  let end = 0
  for (const [index, cut] of cuts.entries()) {
    if (index % CUTS_AT_ONCE === CUTS_AT_ONCE - 1) await setImmediate()
    end += bytes.copy(skeleton, end, from, cut.start)
    const length = cut.end - cut.start - 2
    end += skeleton.write(`{"${NOTE}":"${length} ${headOf(bytes, cut.start + 1)}"}`, end, 'latin1')
    from = cut.end
  }
  end += bytes.copy(skeleton, end, from)
  return skeleton.subarray(0, end)
}

const PLAIN = /^[ !#-[\]-~]*/

function headOf(bytes: Buffer, start: number): string {
  const [plain = ''] = PLAIN.exec(bytes.toString('latin1', start, start + HEAD_BYTES)) ?? []
  return plain
}
