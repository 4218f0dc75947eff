import { CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE, SPACE } from './ascii.ts'
import { JsonError } from './json.ts'
import { closingQuote } from './json-text.ts'

/** A member of the outermost object, by its byte offsets. */
export type Member = {
  readonly key: string
  readonly start: number
  readonly valueStart: number
  readonly end: number
}

/**
 * The members of a JSON object, in order, found in one pass over its bytes. The JSON must be valid: otherwise this may
 * throw a JsonError or return wrong members.
 */
export function topLevel(bytes: Buffer): readonly Member[] {
  const members: Member[] = []
  let i = skipSpace(bytes, 0)
  if (bytes[i] !== OPEN_OBJECT) throw new JsonError('is not a JSON object')
  i = skipSpace(bytes, i + 1)
  while (bytes[i] !== CLOSE_OBJECT) {
    const start = i
    if (bytes[start] !== QUOTE) throw new JsonError('is not valid JSON')
    const keyEnd = textEnd(bytes, start)
    const colon = skipSpace(bytes, keyEnd)
    if (bytes[colon] !== COLON) throw new JsonError('is not valid JSON')
    const valueStart = skipSpace(bytes, colon + 1)
    const end = valueEnd(bytes, valueStart)
    members.push({ key: keyOf(bytes, start, keyEnd), start, valueStart, end })
    i = skipSpace(bytes, end)
    if (bytes[i] === COMMA) i = skipSpace(bytes, i + 1)
    else if (bytes[i] !== CLOSE_OBJECT) throw new JsonError('is not valid JSON')
  }
  return members
}

/** The byte offsets of the elements of the array at `start`; empty if no array begins there. The JSON must be valid. */
export function elements(bytes: Buffer, start: number): readonly Pick<Member, 'start' | 'end'>[] {
  const places: { start: number; end: number }[] = []
  if (bytes[start] !== OPEN_ARRAY) return places
  let i = skipSpace(bytes, start + 1)
  while (i < bytes.length && bytes[i] !== CLOSE_ARRAY) {
    const end = valueEnd(bytes, i)
    if (end === i) throw new JsonError('is not valid JSON')
    places.push({ start: i, end })
    i = skipSpace(bytes, end)
    if (bytes[i] === COMMA) i = skipSpace(bytes, i + 1)
  }
  return places
}

/** Serializes a new value. A buffer contains JSON already. */
const valueBytes = (value: unknown): Buffer =>
  Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value))

/** Edits of array elements by index: undefined removes the element, an object sets members of it. */
export type ElementEdits = ReadonlyMap<number, Readonly<Record<string, unknown>> | undefined>

/** The array at `start` with these edits; all other elements stay byte for byte. Undefined if no element remains. */
export function editElements(bytes: Buffer, start: number, edits: ElementEdits): Buffer | undefined {
  const remaining = elements(bytes, start).flatMap((element, index) => {
    const edit = edits.get(index)
    const elementBytes = bytes.subarray(element.start, element.end)
    if (!edits.has(index)) return [elementBytes]
    return edit === undefined ? [] : [editTopLevel(elementBytes, edit)]
  })
  if (remaining.length === 0) return undefined
  const pieces = remaining.flatMap((piece, index) => [Buffer.from(index === 0 ? '[' : ','), piece])
  return Buffer.concat([...pieces, Buffer.from(']')])
}

/**
 * Sets members of the outermost object, and removes those set to undefined. Every other byte stays unchanged: numbers
 * beyond a parser's precision, the order of keys, spaces. New members come last.
 */
export function editTopLevel(
  bytes: Buffer,
  edits: Readonly<Record<string, unknown>>,
  members: readonly Member[] = topLevel(bytes),
): Buffer {
  const pieces: Buffer[] = []
  // All bytes before this offset are copied to the pieces or removed.
  let from = 0
  const copyTo = (end: number) => {
    if (end > from) pieces.push(bytes.subarray(from, end))
  }
  let hasMembers = false
  for (const [index, member] of members.entries()) {
    const isEdited = Object.hasOwn(edits, member.key)
    if (isEdited && edits[member.key] === undefined) {
      // The comma before a member is removed with it.
      copyTo(members[index - 1]?.end ?? member.start)
      from = member.end
      continue
    }
    if (!hasMembers && index > 0) from = member.start
    hasMembers = true
    if (!isEdited) continue
    copyTo(member.valueStart)
    pieces.push(valueBytes(edits[member.key]))
    from = member.end
  }
  const end = members.at(-1)?.end ?? skipSpace(bytes, 0) + 1
  copyTo(end)
  from = end
  const added = addedMembers(edits, members)
  if (added !== '') pieces.push(Buffer.from(hasMembers ? `,${added}` : added))
  copyTo(bytes.length)
  return Buffer.concat(pieces)
}

function addedMembers(edits: Readonly<Record<string, unknown>>, members: readonly Member[]): string {
  const present = new Set(members.map(({ key }) => key))
  return Object.keys(edits)
    .filter(key => !present.has(key) && edits[key] !== undefined)
    .map(key => `${JSON.stringify(key)}:${valueBytes(edits[key])}`)
    .join(',')
}

/** The name between two quotes. */
export function keyOf(bytes: Buffer, start: number, end: number): string {
  const quotedText = bytes.toString('utf8', start, end)
  return quotedText.includes('\\') ? JSON.parse(quotedText) : quotedText.slice(1, -1)
}

function valueEnd(bytes: Buffer, start: number): number {
  const first = bytes[start]
  if (first === QUOTE) return textEnd(bytes, start)
  if (first === OPEN_OBJECT || first === OPEN_ARRAY) return containerEnd(bytes, start)
  let i = start
  while (i < bytes.length && !endsWord(bytes[i] as number)) i += 1
  return i
}

const endsWord = (byte: number): boolean =>
  byte === COMMA || byte === CLOSE_OBJECT || byte === CLOSE_ARRAY || byte <= SPACE

function containerEnd(bytes: Buffer, start: number): number {
  let depth = 0
  let i = start
  while (i < bytes.length) {
    const byte = bytes[i]
    if (byte === QUOTE) {
      i = textEnd(bytes, i)
      continue
    }
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth += 1
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth -= 1
    i += 1
    if (depth === 0) return i
  }
  throw new JsonError('is not valid JSON')
}

/** The offset after the closing quote of the string that opens at `start`. */
export function textEnd(bytes: Buffer, start: number): number {
  const quote = closingQuote(bytes, start + 1)
  if (quote >= bytes.length) throw new JsonError('is not valid JSON')
  return quote + 1
}

function skipSpace(bytes: Buffer, from: number): number {
  let i = from
  while (i < bytes.length && (bytes[i] as number) <= SPACE) i += 1
  return i
}
