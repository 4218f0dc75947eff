import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { JsonError, parseCounted, parseMeasured } from './json.ts'
import { keyOf, type Member, topLevel } from './json-edit.ts'
import type { Cut } from './json-scan.ts'
import { parseScanned, SLICED_BYTES, scanInSlices } from './json-slices.ts'

/** Below this a body is parsed as it is: not even the worst of them takes long. */
export const LARGE_BYTES = SLICED_BYTES
/** Above this, long texts are left out of the parsed body for whoever needs no more than their lengths. */
export const SKIM_BYTES = 1_048_576
const HEAD_BYTES = 32
const MAX_NOTE_BYTES = 80
const CUTS_AT_ONCE = 4_096

/** No client can write this name, so that no client can pass something off as a text of another length. */
const NOTE = `long ${randomUUID().slice(0, 13)}`

/** Stands for a text that was too long to be parsed. */
export type LongText = {
  /** As JSON wrote it: never fewer than it means. */
  readonly bytes: number
  /** How it begins, as far as that is plain. */
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
  /** How many names the value has if none of them is repeated in its object. */
  readonly names: number
}

/**
 * Parses a body of any size without holding up the event loop. `isSkimmed`: texts that are long may be given as a LongText.
 * The members are those of its outermost object; there are none where it is no object. Throws a JsonError.
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
  // Only now that a parser has taken it, it is sure that these are names.
  const members = places.map(({ start, nameEnd, valueStart, end }) => ({
    key: keyOf(bytes, start, nameEnd),
    start,
    valueStart,
    end,
  }))
  // A note in the place of a text has one name.
  return { value, members, names: nameCount + (isSkeleton ? cuts.length : 0) }
}

/** The same JSON with a note in the place of each long text, made a few texts at a time. */
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
