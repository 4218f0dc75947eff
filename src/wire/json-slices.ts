import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { BACKSLASH, COMMA, LOWER_U, QUOTE } from './ascii.ts'
import { parseBounded } from './json-bounds.ts'
import { type Cut, createJsonScanner, type Scan, type ScanOptions } from './json-scan.ts'

/** Up to this size a document is scanned, parsed and written synchronously. */
export const SLICED_BYTES = 64 * 1024
/** The bytes that are processed in one turn of the event loop: a few milliseconds. */
const SLICE_BYTES = 128 * 1024
const CUTS_AT_ONCE = 2_048

/** Before V8 has compiled the scanner, it is a hundred times slower, so its turns are limited by time. */
const SCANNED_BYTES = 8 * 1024
const TURN_MS = 4

/** Scans a document of any size without blocking the event loop. Throws a JsonError. */
export async function scanInSlices(bytes: Buffer, options?: ScanOptions): Promise<Scan> {
  const scanner = createJsonScanner(options)
  let turnMs = performance.now()
  for (let from = 0; from < bytes.length; from += SCANNED_BYTES) {
    if (performance.now() - turnMs > TURN_MS) {
      await setImmediate()
      turnMs = performance.now()
    }
    scanner.push(bytes.subarray(from, from + SCANNED_BYTES))
  }
  return scanner.end()
}

/** The member name of the placeholder of a cut. Random, so that no provider can forge one. */
const CUT_NAME = `cut ${randomUUID().slice(0, 13)}`

/**
 * Parses a document of any size without blocking the event loop: it parses a skeleton without the long texts and lists,
 * then restores them one by one. Invalid UTF-8 becomes U+FFFD. Throws a JsonError.
 */
export async function parseInSlices(bytes: Buffer): Promise<unknown> {
  if (bytes.length <= SLICED_BYTES) return parseBounded(bytes.toString('utf8'))
  const { cuts } = await scanInSlices(bytes, { cutsNumbers: true })
  return parseScanned(bytes, cuts)
}

/** Parses a document that has been scanned and is within the limits. */
export async function parseScanned(bytes: Buffer, cuts: readonly Cut[]): Promise<unknown> {
  const document = { value: await parseSkeleton(bytes, cuts) }
  await restore(bytes, cuts, document)
  return document.value
}

/** The parsed document with a placeholder object for each long text and list; see `isCutText`. */
export async function parseSkeleton(bytes: Buffer, cuts: readonly Cut[]): Promise<unknown> {
  await setImmediate()
  return JSON.parse(await skeletonOf(bytes, cuts))
}

/** Whether this value of a skeleton is the placeholder of a text. */
export function isCutText(value: unknown, bytes: Buffer, cuts: readonly Cut[]): boolean {
  const cut = typeof value === 'object' && value !== null ? cuts[cutIndex(value) ?? -1] : undefined
  return cut !== undefined && bytes[cut.start] === QUOTE
}

/** The JSON with a placeholder object for each cut. */
async function skeletonOf(bytes: Buffer, cuts: readonly Cut[]): Promise<string> {
  let text = ''
  let from = 0
  for (const [index, cut] of cuts.entries()) {
    if (index % CUTS_AT_ONCE === CUTS_AT_ONCE - 1) await setImmediate()
    text += `${bytes.toString('utf8', from, cut.start)}{"${CUT_NAME}":${index}}`
    from = cut.end
  }
  return text + bytes.toString('utf8', from)
}

type Container = Record<string, unknown>

/** The index of the cut, if this value is a placeholder. */
function cutIndex(value: object): number | undefined {
  return Object.hasOwn(value, CUT_NAME) ? (value as Record<string, number>)[CUT_NAME] : undefined
}

async function restore(bytes: Buffer, cuts: readonly Cut[], document: Container): Promise<void> {
  const cutPlaces: { container: Container; name: string; cut: Cut }[] = []
  const collectCuts = (container: Container): void => {
    for (const name of Object.keys(container)) {
      const value = container[name]
      if (typeof value !== 'object' || value === null) continue
      const cut = cuts[cutIndex(value) ?? -1]
      if (cut) cutPlaces.push({ container, name, cut })
      else collectCuts(value as Container)
    }
  }
  collectCuts(document)
  let done = 0
  for (const { container, name, cut } of cutPlaces) {
    const isText = bytes[cut.start] === QUOTE
    const size = cut.end - cut.start
    if (size > SLICE_BYTES) container[name] = await (isText ? longText(bytes, cut) : longList(bytes, cut))
    else
      container[name] = isText ? textIn(bytes, cut.start + 1, cut.end - 1) : listIn(bytes, cut.start, cut.end)
    done += size
    if (done < SLICE_BYTES) continue
    done = 0
    await setImmediate()
  }
}

/** The decoded text between two offsets, which must not split a character or an escape. */
function textIn(bytes: Buffer, from: number, to: number): string {
  const escapedText = bytes.toString('utf8', from, to)
  return escapedText.includes('\\') ? JSON.parse(`"${escapedText}"`) : escapedText
}

const listIn = (bytes: Buffer, start: number, end: number): unknown[] =>
  JSON.parse(bytes.toString('latin1', start, end))

async function longText(bytes: Buffer, { start, end }: Cut): Promise<string> {
  let text = ''
  const last = end - 1
  for (let from = start + 1; from < last; ) {
    const to = from + SLICE_BYTES < last ? textBorder(bytes, from, from + SLICE_BYTES) : last
    text += textIn(bytes, from, to)
    from = to
    await setImmediate()
  }
  return text
}

/** The first offset from `at` on that splits neither a UTF-8 character nor an escape. */
export function textBorder(bytes: Buffer, from: number, at: number): number {
  let border = at
  while (((bytes[border] as number) & 0xc0) === 0x80) border += 1
  const slash = bytes.lastIndexOf(BACKSLASH, border - 1)
  if (slash < Math.max(from, border - 6)) return border
  let first = slash
  while (first > from && bytes[first - 1] === BACKSLASH) first -= 1
  // In a run of backslashes every second one is escaped by the one before it.
  if ((slash - first) % 2 === 1) return border
  return Math.max(border, slash + (bytes[slash + 1] === LOWER_U ? 6 : 2))
}

async function longList(bytes: Buffer, { start, end }: Cut): Promise<unknown[]> {
  const list: unknown[] = []
  const last = end - 1
  for (let from = start + 1; from < last; ) {
    const comma = from + SLICE_BYTES < last ? bytes.indexOf(COMMA, from + SLICE_BYTES) : -1
    const to = comma === -1 || comma > last ? last : comma
    for (const value of JSON.parse(`[${bytes.toString('latin1', from, to)}]`)) list.push(value)
    from = to + 1
    await setImmediate()
  }
  return list
}

/** Longer texts and lists of numbers are serialized separately, in pieces. */
const LONG_TEXT = 4_096
const LONG_LIST = 256
/** The size of a piece that is serialized synchronously. A number takes as long as many characters. */
const TEXT_AT_ONCE = 128 * 1024
const NUMBERS_AT_ONCE = 8 * 1024

const isLongText = (value: unknown): value is string => typeof value === 'string' && value.length > LONG_TEXT
const isLongList = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > LONG_LIST && typeof value[0] === 'number'

/** `JSON.stringify` for a value with long texts or lists of numbers, without blocking the event loop. */
export async function writeInSlices(value: unknown): Promise<Buffer> {
  const long: (string | number[])[] = []
  const skeleton = JSON.stringify(value, (_name, each: unknown) => {
    if (!isLongText(each) && !isLongList(each)) return each
    long.push(each)
    return { [CUT_NAME]: long.length - 1 }
  })
  const pieces: Buffer[] = []
  let from = 0
  let share = 0
  for (const [index, each] of long.entries()) {
    const placeholder = `{"${CUT_NAME}":${index}}`
    const at = skeleton.indexOf(placeholder, from)
    pieces.push(Buffer.from(skeleton.slice(from, at)))
    for (const piece of typeof each === 'string' ? textPieces(each) : listPieces(each)) {
      pieces.push(Buffer.from(piece.text))
      share += piece.share
      if (share < 1) continue
      share = 0
      await setImmediate()
    }
    from = at + placeholder.length
  }
  pieces.push(Buffer.from(skeleton.slice(from)))
  return joinInSlices(pieces)
}

/** A piece of JSON, and its share of the work that is done in one turn of the event loop. */
type Piece = { readonly text: string; readonly share: number }

function* textPieces(text: string): Generator<Piece> {
  for (let from = 0; from < text.length; ) {
    let to = Math.min(text.length, from + TEXT_AT_ONCE)
    // A surrogate pair must not be split, or each half would be written as an escape.
    if (to < text.length && (text.charCodeAt(to - 1) & 0xfc00) === 0xd800) to += 1
    const escapedText = JSON.stringify(text.slice(from, to)).slice(1, -1)
    yield {
      text: `${from === 0 ? '"' : ''}${escapedText}${to === text.length ? '"' : ''}`,
      share: (to - from) / TEXT_AT_ONCE,
    }
    from = to
  }
}

function* listPieces(list: readonly number[]): Generator<Piece> {
  for (let from = 0; from < list.length; from += NUMBERS_AT_ONCE) {
    const numbers = list.slice(from, from + NUMBERS_AT_ONCE)
    const numberText = JSON.stringify(numbers).slice(1, -1)
    const isLast = from + NUMBERS_AT_ONCE >= list.length
    yield {
      text: `${from === 0 ? '[' : ','}${numberText}${isLast ? ']' : ''}`,
      share: numbers.length / NUMBERS_AT_ONCE,
    }
  }
}

/** Joins pieces in slices: copying a large body at once would block the event loop. */
export async function joinInSlices(pieces: readonly Buffer[]): Promise<Buffer> {
  const whole = Buffer.allocUnsafeSlow(pieces.reduce((sum, { length }) => sum + length, 0))
  await copyInSlices(pieces, whole)
  return whole
}

/** Copies bytes into shared memory, which threads can read. */
export async function shareInSlices(bytes: Buffer): Promise<Uint8Array<SharedArrayBuffer>> {
  const shared = new SharedArrayBuffer(bytes.length)
  await copyInSlices([bytes], Buffer.from(shared))
  return new Uint8Array(shared)
}

async function copyInSlices(pieces: readonly Buffer[], whole: Buffer): Promise<void> {
  let end = 0
  let copied = 0
  for (const piece of pieces) {
    for (let from = 0; from < piece.length; ) {
      const to = Math.min(piece.length, from + JOINED_BYTES - copied)
      end += piece.copy(whole, end, from, to)
      copied += to - from
      from = to
      if (copied < JOINED_BYTES) continue
      copied = 0
      await setImmediate()
    }
  }
}

/** The bytes that are copied in one turn of the event loop. Copying into newly allocated memory takes up to 5 ms per MiB. */
export const JOINED_BYTES = 512 * 1024
