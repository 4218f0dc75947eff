import { CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './ascii.ts'
import { JsonError } from './json.ts'
import { keyOf, textEnd } from './json-edit.ts'

/** A name that occurs twice in one object. */
export type RepeatedName = {
  /** As a path from the outermost object: `messages[0].content`. */
  readonly path: string
  readonly isTopLevel: boolean
}

/** An open object or list, and its step in the path from the enclosing one. */
type Frame = {
  readonly step: string
  /** Absent for a list. */
  readonly names: Set<string> | undefined
  /** Whether repeated names inside it are reported. */
  readonly isWatched: boolean
  index: number
  name: string
}

/**
 * The first name that occurs twice in one object, found in one pass over valid JSON. Parsers drop one of the two values
 * without an error. `isWatched` decides whether the value of a member is checked too.
 */
export function repeatedName(
  bytes: Buffer,
  isWatched: (name: string, isList: boolean) => boolean,
): RepeatedName | undefined {
  const frames: Frame[] = []
  let text = ''
  let i = 0
  const pathTo = (name: string) =>
    [...frames.slice(1).map(({ step }) => step), frames.length > 1 ? `.${name}` : name]
      .join('')
      .replace(/^\./, '')

  function open(isObject: boolean): void {
    const parent = frames.at(-1)
    const isInList = parent !== undefined && parent.names === undefined
    frames.push({
      step: parent === undefined ? '' : isInList ? `[${parent.index}]` : `.${parent.name}`,
      names: isObject ? new Set() : undefined,
      isWatched:
        parent === undefined || (parent.isWatched && (isInList || isWatched(parent.name, !isObject))),
      index: 0,
      name: '',
    })
  }

  while (i < bytes.length) {
    const byte = bytes[i]
    const frame = frames.at(-1)
    if (byte === QUOTE) {
      const end = textEnd(bytes, i)
      // A string is a name only if a colon follows. Other strings are not decoded.
      if (frame?.names && bytes.length > end) text = nameBefore(bytes, i, end)
      i = end
      continue
    }
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) open(byte === OPEN_OBJECT)
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) frames.pop()
    else if (byte === COMMA && frame) frame.index += 1
    else if (byte === COLON && frame?.names) {
      if (frame.isWatched && frame.names.has(text))
        return { path: pathTo(text), isTopLevel: frames.length === 1 }
      frame.names.add(text)
      frame.name = text
    }
    i += 1
  }
  if (frames.length > 0) throw new JsonError('is not valid JSON')
  return undefined
}

/** The string if a colon follows it, so that it is a name; else empty. */
function nameBefore(bytes: Buffer, start: number, end: number): string {
  let i = end
  while (i < bytes.length && (bytes[i] as number) <= 0x20) i += 1
  return bytes[i] === COLON ? keyOf(bytes, start, end) : ''
}
