/** A part of a multipart body. Its content consists of views of the body. */
export type MultipartPart = {
  readonly name: string
  /** Present if the part is a file. */
  readonly file?: { readonly name: string; readonly type: string }
  readonly content: readonly Buffer[]
}

/** The head of a part as most clients write it. Characters that parsers decode in different ways are left to the general parser. */
const HEAD =
  /^content-disposition: form-data; name="([ !#$&-[\]-~]+)"(?:; filename="([ !#$&-.0-[\]-~]+)"(?:\r\ncontent-type: ([\w.+-]+\/[\w.+-]+))?)?$/i
/** Of a file without a type (RFC 7578, section 4.4). */
const DEFAULT_TYPE = 'text/plain'
const MAX_HEAD_BYTES = 1_024
const HEAD_END = '\r\n\r\n'
const LINE_END = '\r\n'
const LAST = '--'

/** The bytes of these chunks from one offset to another, without a copy. */
export function viewsOf(chunks: readonly Buffer[], from: number, to: number): Buffer[] {
  const views: Buffer[] = []
  let start = 0
  for (const chunk of chunks) {
    const first = Math.max(0, from - start)
    const end = Math.min(chunk.length, to - start)
    if (first < end) views.push(chunk.subarray(first, end))
    start += chunk.length
  }
  return views
}

/** The bytes of these chunks as one. Copies only if there are several. */
export function joined(chunks: readonly Buffer[]): Buffer {
  const [only = Buffer.alloc(0)] = chunks
  return chunks.length < 2 ? only : Buffer.concat(chunks)
}

const textOf = (chunks: readonly Buffer[], from: number, to: number) =>
  joined(viewsOf(chunks, from, to)).toString('latin1')

/** The offsets of a pattern, also where it is divided between chunks; undefined: there are more than the maximum. */
function offsetsOf(
  chunks: readonly Buffer[],
  pattern: Buffer,
  maxOffsets: number,
): readonly number[] | undefined {
  const offsets: number[] = []
  const overlap = pattern.length - 1
  let start = 0
  /** The last bytes before the chunk. */
  let tail: Buffer = Buffer.alloc(0)
  for (const chunk of chunks) {
    const seam = Buffer.concat([tail, chunk.subarray(0, overlap)])
    for (const [bytes, shift] of [
      [seam, start - tail.length],
      [chunk, start],
    ] as const)
      for (let at = bytes.indexOf(pattern); at >= 0; at = bytes.indexOf(pattern, at + pattern.length)) {
        if (offsets.length === maxOffsets) return undefined
        offsets.push(shift + at)
      }
    start += chunk.length
    tail = chunk.length >= overlap ? chunk.subarray(-overlap) : seam.subarray(-overlap)
  }
  return offsets
}

type Head = Omit<MultipartPart, 'content'> & { readonly length: number }

/** Reads the head at the beginning of a part; undefined: it is written in another way, or incomplete. */
function headOf(text: string): Head | undefined {
  const end = text.indexOf(HEAD_END)
  const match = end < 0 ? null : HEAD.exec(text.slice(0, end))
  if (match === null) return undefined
  const [, name = '', fileName, type = DEFAULT_TYPE] = match
  const length = end + HEAD_END.length
  return fileName === undefined ? { name, length } : { name, file: { name: fileName, type }, length }
}

const firstLineOf = (boundary: string) => `--${boundary}${LINE_END}`

/** Whether a body that begins with this chunk may be in the form that `partsOf` reads. */
export function beginsPlainly(chunk: Buffer, boundary: string): boolean {
  const firstLine = firstLineOf(boundary)
  const text = chunk.toString('latin1', 0, firstLine.length + MAX_HEAD_BYTES)
  return text.startsWith(firstLine) && headOf(text.slice(firstLine.length)) !== undefined
}

/**
 * The parts of a complete multipart body in the form that most clients write. Returns undefined for every other body: those are
 * for a general parser, which also reports what is wrong with them.
 */
export function partsOf(
  chunks: readonly Buffer[],
  boundary: string,
  maxParts: number,
): readonly MultipartPart[] | undefined {
  const delimiter = Buffer.from(`\r\n--${boundary}`)
  const firstLine = firstLineOf(boundary)
  if (textOf(chunks, 0, firstLine.length) !== firstLine) return undefined
  const ends = offsetsOf(chunks, delimiter, maxParts)
  if (ends === undefined || ends.length === 0) return undefined
  const size = chunks.reduce((sum, { length }) => sum + length, 0)
  const parts: MultipartPart[] = []
  let start = firstLine.length
  for (const [index, end] of ends.entries()) {
    const head = headOf(textOf(chunks, start, Math.min(end, start + MAX_HEAD_BYTES)))
    if (head === undefined) return undefined
    const { length, ...part } = head
    parts.push({ ...part, content: viewsOf(chunks, start + length, end) })
    start = end + delimiter.length + LINE_END.length
    const isLast = index === ends.length - 1
    const after = textOf(chunks, end + delimiter.length, isLast ? size : start)
    const isExpected = isLast ? after === LAST || after === `${LAST}${LINE_END}` : after === LINE_END
    if (!isExpected) return undefined
  }
  return parts
}
