import { JsonError, MAX_DEPTH } from './json.ts'

/** What makes a parser slow, out of all proportion to the bytes: each has a bound of its own. */
export const SCAN_LIMITS = {
  /** Different names of members: each new one makes the engine learn a new shape of object. */
  names: 10_000,
  texts: 100_000,
  values: 350_000,
} as const

/** A text inside the outermost object that is too long to be worth parsing: the places of its quotes. */
export type Cut = { readonly start: number; readonly end: number }

/** A member of the outermost object, its name as it is written between the quotes. */
type Place = {
  readonly start: number
  readonly nameEnd: number
  readonly valueStart: number
  readonly end: number
}

export type Scan = {
  readonly cuts: readonly Cut[]
  readonly places: readonly Place[]
  /** How many names of members there are, at any depth. */
  readonly nameCount: number
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const SPACE = 0x20
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d

const LOWER_U = 0x75
const ESCAPES: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrtu'))
const HEX: ReadonlySet<number> = new Set(Buffer.from('0123456789abcdefABCDEF'))

/** No number means anything beyond this, and a parser reads it digit by digit. */
const MAX_WORD = 1_000

const LONG_TEXT = 1_024
/** Once so much is left to be parsed, only short texts are left in. */
const ROOMY_BYTES = 2 * 1_048_576
const SHORT_TEXT = 64

const FNV_START = 0x811c9dc5
const FNV_PRIME = 0x01000193

/**
 * Looks over JSON in pieces, so that no piece takes long, and refuses what would stall whoever parses it. It is no parser: of
 * bytes that are no JSON it may say anything but for ever.
 */
export function createJsonScanner() {
  const isInObject = new Uint8Array(MAX_DEPTH + 1)
  const names = new Set<number>()
  const cuts: Cut[] = []
  let nameCount = 0
  let place = 0
  let depth = 0
  let values = 0
  let texts = 0
  let cutBytes = 0
  let isInText = false
  let isEscaped = false
  let hexLeft = 0
  let isName = false
  let expectsName = false
  let textStart = 0
  let hash = 0
  const places: Place[] = []
  let member: { start: number; nameEnd: number; valueStart: number } | undefined
  /** Behind the last byte that is no space. */
  let solidEnd = 0
  let wordLength = 0

  /** The outermost object's members are noted as they pass, so that nobody has to look for them again. */
  function endMember(): void {
    if (depth === 1 && member !== undefined) places.push({ ...member, end: solidEnd })
    if (places.length > SCAN_LIMITS.names) throw new JsonError('names a member twice')
    if (depth <= 1) member = undefined
  }

  function beginValue(): void {
    if (member !== undefined && member.valueStart === 0) member.valueStart = place
  }

  function open(isObject: boolean): void {
    beginValue()
    depth += 1
    if (depth > MAX_DEPTH) throw new JsonError(`is nested deeper than ${MAX_DEPTH} levels`)
    isInObject[depth] = isObject ? 1 : 0
    expectsName = isObject
    countValue()
  }

  function countValue(): void {
    values += 1
    if (values > SCAN_LIMITS.values) throw new JsonError(`holds more than ${SCAN_LIMITS.values} values`)
  }

  function beginText(): void {
    isInText = true
    textStart = place
    isName = expectsName
    if (!isName) beginValue()
    expectsName = false
    hash = FNV_START
  }

  function endText(): void {
    isInText = false
    solidEnd = place + 1
    if (isName) {
      if (depth === 1) member = { start: textStart, nameEnd: place + 1, valueStart: 0 }
      names.add(hash)
      if (names.size > SCAN_LIMITS.names)
        throw new JsonError(`has members of more than ${SCAN_LIMITS.names} different names`)
      return
    }
    texts += 1
    if (texts > SCAN_LIMITS.texts) throw new JsonError(`holds more than ${SCAN_LIMITS.texts} texts`)
    const length = place - textStart
    const isRoomy = place - cutBytes < ROOMY_BYTES || depth < 2
    if (length <= (isRoomy ? LONG_TEXT : SHORT_TEXT)) return
    cuts.push({ start: textStart, end: place + 1 })
    cutBytes += length
  }

  /** A text that is left out is not seen by the parser, so what it may not hold is looked for here. */
  function passEscape(byte: number): void {
    const isGood = hexLeft > 0 ? HEX.has(byte) : ESCAPES.has(byte)
    if (!isGood) throw new JsonError('is not valid JSON')
    hexLeft = hexLeft > 0 ? hexLeft - 1 : byte === LOWER_U ? 4 : 0
    isEscaped = false
  }

  /** Inside a text, up to its end or the end of the piece; returns where it stopped. */
  function passText(piece: Buffer, from: number): number {
    let i = from
    while (i < piece.length) {
      const byte = piece[i] as number
      if (isEscaped || hexLeft > 0) passEscape(byte)
      else if (byte === BACKSLASH) isEscaped = true
      else if (byte === QUOTE) return i
      else if (byte < SPACE) throw new JsonError('is not valid JSON')
      if (isName) hash = Math.imul(hash ^ byte, FNV_PRIME)
      i += 1
    }
    return i
  }

  return {
    push(piece: Buffer): void {
      const base = place
      let i = 0
      while (i < piece.length) {
        if (isInText) {
          i = passText(piece, i)
          place = base + i
          if (i === piece.length) return
          endText()
          i += 1
          continue
        }
        place = base + i
        switch (piece[i]) {
          case QUOTE:
            beginText()
            break
          case OPEN_OBJECT:
            open(true)
            break
          case OPEN_ARRAY:
            open(false)
            break
          case CLOSE_OBJECT:
          case CLOSE_ARRAY:
            endMember()
            solidEnd = place + 1
            depth = Math.max(0, depth - 1)
            expectsName = false
            break
          case COMMA:
            endMember()
            expectsName = isInObject[depth] === 1
            countValue()
            break
          case COLON:
            nameCount += 1
            break
          default:
            if ((piece[i] as number) > SPACE) {
              beginValue()
              wordLength = solidEnd === place ? wordLength + 1 : 1
              if (wordLength > MAX_WORD) throw new JsonError(`holds a number of more than ${MAX_WORD} digits`)
              solidEnd = place + 1
            }
        }
        i += 1
      }
      place = base + piece.length
    },
    end(): Scan {
      // Nothing would be cut out of a text that never ends, and all of it parsed to find that out.
      if (isInText || depth > 0) throw new JsonError('is not valid JSON')
      return { cuts, places, nameCount }
    },
  }
}
