import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { JsonError, parseCounted, parseMeasured } from './json.ts'
import { keyOf, type Member, topLevel } from './json-edit.ts'
import type { Cut, Scan } from './json-scan.ts'
import { parseScanned, SLICED_BYTES, scanInSlices } from './json-slices.ts'

/** Bodies up to this size are parsed synchronously, which is fast even for hostile ones. */
export const LARGE_BYTES = SLICED_BYTES
/** Above this size, operations that need only the lengths of long texts get a LongText instead of each. */
export const SKIM_BYTES = 1_048_576
const HEAD_BYTES = 32
const MAX_PLACEHOLDER_BYTES = 80
const CUTS_AT_ONCE = 4_096
const OPEN = Buffer.from('[')
const CLOSE = Buffer.from(']')

/** The member name of a LongText placeholder. Random, so that no client can forge one. */
const LONG_TEXT_NAME = `long ${randomUUID().slice(0, 13)}`

/** Describes a long text that was not parsed. */
export type LongText = {
  /** Its length as JSON, which is at least the length of the decoded text. */
  readonly bytes: number
  /** Its first characters, up to the first that needs an escape or is not ASCII. */
  readonly head: string
}

/** Whether an object with a member of this name is the placeholder of a long text. */
export const isLongTextName = (name: string): boolean => name === LONG_TEXT_NAME

export function longText(value: unknown): LongText | undefined {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, LONG_TEXT_NAME)) return undefined
  const description = (value as Record<string, string>)[LONG_TEXT_NAME] ?? ''
  const space = description.indexOf(' ')
  return { bytes: Number(description.slice(0, space)), head: description.slice(space + 1) }
}

export type JsonRead = {
  readonly value: unknown
  readonly members: readonly Member[]
  /** The number of member names in the text. A parsed value with fewer had a repeated name. */
  readonly names: number
}

/**
 * Parses a body of any size without blocking the event loop; a small one synchronously. With `isSkimmed`, long texts may be returned as LongText.
 * `members` are those of the outermost object; empty if the body is no object. Throws a JsonError.
 */
export const readJson = (bytes: Buffer, isSkimmed: boolean): JsonRead | Promise<JsonRead> =>
  bytes.length <= LARGE_BYTES ? readSmall(bytes) : readLarge(bytes, isSkimmed)

function readSmall(bytes: Buffer): JsonRead {
  const { value, names } = parseCounted(bytes)
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  return { value, members: isObject ? topLevel(bytes) : [], names }
}

async function readLarge(bytes: Buffer, isSkimmed: boolean): Promise<JsonRead> {
  const { cuts, members: ranges, nameCount } = await scanInSlices(bytes)
  if (!isUtf8(bytes)) throw new JsonError('is not valid UTF-8')
  const isSkeleton = isSkimmed && bytes.length > SKIM_BYTES
  const value = await (isSkeleton
    ? parseSkimmed(bytes, { cuts, members: ranges })
    : parseScanned(bytes, cuts))
  // Names are decoded after parsing, because only then they are known to be valid.
  const members = ranges.map(({ start, nameEnd, valueStart, end }) => ({
    key: keyOf(bytes, start, nameEnd),
    start,
    valueStart,
    end,
  }))
  // Each LongText is an object with one name.
  return { value, members, names: nameCount + (isSkeleton ? cuts.length : 0) }
}

/** Parses the document without its long texts, and long lists in parts. */
async function parseSkimmed(
  bytes: Buffer,
  { cuts, members }: Pick<Scan, 'cuts' | 'members'>,
): Promise<unknown> {
  const lists = members.filter(({ splits }) => splits.length > 0)
  const marks = lists.flatMap(({ splits, end }) => [...splits, end - 1])
  const skeleton = await skeletonOf(bytes, cuts, marks)
  const head: Buffer[] = []
  const parts: { readonly name: string; readonly start: number; readonly end: number }[] = []
  let from = 0
  let mark = 0
  for (const { start, nameEnd, splits } of lists) {
    const borders = skeleton.marks.slice(mark, mark + splits.length + 1)
    mark += borders.length
    const name = keyOf(bytes, start, nameEnd)
    for (let at = 1; at < borders.length; at++)
      parts.push({ name, start: (borders[at - 1] as number) + 1, end: borders[at] as number })
    head.push(skeleton.bytes.subarray(from, borders[0]))
    from = borders.at(-1) as number
  }
  const document = parseMeasured(Buffer.concat([...head, skeleton.bytes.subarray(from)])) as Readonly<
    Record<string, unknown>
  >
  for (const { name, start, end } of parts) {
    await setImmediate()
    const list = document[name]
    // If a name is repeated, the parser keeps the last value, which may be no list. Such a document is refused later.
    if (Array.isArray(list)) for (const element of parseList(skeleton.bytes, start, end)) list.push(element)
  }
  // The caller starts in a new turn of the event loop.
  if (parts.length > 0) await setImmediate()
  return document
}

const parseList = (bytes: Buffer, start: number, end: number) =>
  parseMeasured(Buffer.concat([OPEN, bytes.subarray(start, end), CLOSE])) as unknown[]

/**
 * The JSON with a LongText placeholder for each long text, built in slices. `marks` are ascending offsets outside the cuts;
 * they are returned as offsets of the skeleton.
 */
async function skeletonOf(bytes: Buffer, cuts: readonly Cut[], marks: readonly number[]) {
  const cutBytes = cuts.reduce((sum, { start, end }) => sum + end - start, 0)
  const skeleton = Buffer.allocUnsafe(bytes.length - cutBytes + cuts.length * MAX_PLACEHOLDER_BYTES)
  const skeletonMarks: number[] = []
  let from = 0
  let end = 0
  const copyUntil = (until: number) => {
    for (let mark = marks[skeletonMarks.length]; mark !== undefined && mark < until; ) {
      skeletonMarks.push(end + mark - from)
      mark = marks[skeletonMarks.length]
    }
    end += bytes.copy(skeleton, end, from, until)
  }
  for (const [index, cut] of cuts.entries()) {
    if (index % CUTS_AT_ONCE === CUTS_AT_ONCE - 1) await setImmediate()
    copyUntil(cut.start)
    const length = cut.end - cut.start - 2
    end += skeleton.write(`{"${LONG_TEXT_NAME}":"${length} ${headOf(bytes, cut.start + 1)}"}`, end, 'latin1')
    from = cut.end
  }
  copyUntil(bytes.length)
  return { bytes: skeleton.subarray(0, end), marks: skeletonMarks }
}

const PLAIN = /^[ !#-[\]-~]*/

function headOf(bytes: Buffer, start: number): string {
  const [plain = ''] = PLAIN.exec(bytes.toString('latin1', start, start + HEAD_BYTES)) ?? []
  return plain
}
