import {
  BACKSLASH,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  CR,
  LF,
  LOWER_U,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  SPACE,
  TAB,
} from './ascii.ts'
import { JsonError, MAX_DEPTH } from './json.ts'
import { isWordEnd, MALFORMED, nextWordState } from './json-word.ts'

/** Limits on documents that take a parser far longer than their size suggests. */
export const SCAN_LIMITS: ScanLimits = {
  /** Different member names: V8 creates an object shape for each of them. */
  names: 10_000,
  texts: 100_000,
  values: 350_000,
  /** Bytes outside long texts and long lists, including spaces. */
  otherBytes: 8 * 1_048_576,
}

export type ScanLimits = {
  readonly names: number
  readonly texts: number
  readonly values: number
  readonly otherBytes: number
}

/** For a document that is scanned but not parsed whole: only names and depth are limited. */
export const NAMES_ONLY: ScanLimits = {
  names: SCAN_LIMITS.names,
  texts: Number.POSITIVE_INFINITY,
  values: Number.POSITIVE_INFINITY,
  otherBytes: Number.POSITIVE_INFINITY,
}

export type ScanOptions = {
  readonly limits?: ScanLimits
  /** Also cut long lists of numbers, whose numbers then do not count as values. */
  readonly cutsNumbers?: boolean
}

/** The byte range of a long text or list of numbers, with its quotes or brackets. It is cut out before parsing. */
export type Cut = { readonly start: number; readonly end: number }

/** A member of the outermost object, by its byte offsets. */
type MemberRange = {
  readonly start: number
  readonly nameEnd: number
  readonly valueStart: number
  readonly end: number
  /** The number of elements if the value is a list; else 0. */
  readonly entries: number
  /** Offsets of the commas at which a long list can be split, to parse it in parts; empty if it is short. */
  readonly splits: readonly number[]
}

export type Scan = {
  readonly cuts: readonly Cut[]
  readonly members: readonly MemberRange[]
  /** Whether the document is within the limits for parsing. */
  readonly isParsable: boolean
  /** The number of member names at any depth. */
  readonly nameCount: number
}

const ESCAPES: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrtu'))
const HEX: ReadonlySet<number> = new Set(Buffer.from('0123456789abcdefABCDEF'))

/** The maximum length of a number: further digits have no meaning and only cost time. */
const MAX_WORD = 1_000

/** The states of the grammar: the tokens that may come next. */
const NEXT = { value: 0, valueOrClose: 1, name: 2, nameOrClose: 3, colon: 4, commaOrClose: 5 } as const

const LONG_TEXT = 1_024
const LONG_LIST = 4_096
/** A list of the outermost object is parsed in parts of this size, without its long texts. */
const PART_BYTES = 256 * 1024
/** Up to this size the document without its cuts has room for texts up to `LONG_TEXT`; above it, up to `SHORT_TEXT`. */
const SMALL_SKELETON_BYTES = 2 * 1_048_576
const SHORT_TEXT = 64

const FNV_START = 0x811c9dc5
const FNV_PRIME = 0x01000193

/**
 * Validates JSON piece by piece, so that no call takes long, and finds the ranges to cut. It throws for invalid JSON and
 * for JSON that would stall a parser. It builds no values.
 */
export function createJsonScanner({ limits = SCAN_LIMITS, cutsNumbers = false }: ScanOptions = {}) {
  const isInObject = new Uint8Array(MAX_DEPTH + 1)
  const names = new Set<number>()
  const cuts: Cut[] = []
  let nameCount = 0
  let offset = 0
  let depth = 0
  let values = 0
  let texts = 0
  let cutBytes = 0
  let isInText = false
  let isEscaped = false
  let hexLeft = 0
  let isName = false
  let next: number = NEXT.value
  let textStart = 0
  let hash = 0
  const members: MemberRange[] = []
  let member: { start: number; nameEnd: number; valueStart: number } | undefined
  let entries = 0
  let splits: number[] = []
  /** The bytes before the last split that are parsed. */
  let parsedBytes = 0
  /** The offset after the last byte that is not a space. */
  let contentEnd = 0
  let wordLength = 0
  let wordState = 0
  /** The start of the current list while it contains only numbers; else -1. */
  let numbersStart = -1
  let numbers = 0

  const malformed = () => new JsonError('is not valid JSON')

  /** Records the byte range of a member of the outermost object. */
  function endMember(): void {
    if (depth === 1 && member !== undefined) members.push({ ...member, end: contentEnd, entries, splits })
    if (members.length > SCAN_LIMITS.names) throw new JsonError('contains a member twice')
    if (depth <= 1) {
      member = undefined
      entries = 0
      splits = []
    }
  }

  function split(): void {
    if (offset - cutBytes - parsedBytes < PART_BYTES) return
    parsedBytes = offset - cutBytes
    splits.push(offset)
  }

  function beginValue(): void {
    if (next !== NEXT.value && next !== NEXT.valueOrClose) throw malformed()
    if (member !== undefined && member.valueStart === 0) member.valueStart = offset
    else if (depth === 2 && member !== undefined && isInObject[2] === 0) entries += 1
  }

  function open(isObject: boolean): void {
    beginValue()
    endNumbers()
    depth += 1
    if (depth > MAX_DEPTH) throw new JsonError(`is nested deeper than ${MAX_DEPTH} levels`)
    isInObject[depth] = isObject ? 1 : 0
    next = isObject ? NEXT.nameOrClose : NEXT.valueOrClose
    countValue()
    if (isObject || !cutsNumbers) return
    numbersStart = offset
    numbers = 0
  }

  function close(isObject: boolean): void {
    const isMatching = depth > 0 && (isInObject[depth] === 1) === isObject
    const mayClose = next === NEXT.commaOrClose || next === (isObject ? NEXT.nameOrClose : NEXT.valueOrClose)
    if (!isMatching || !mayClose) throw malformed()
    if (numbersStart !== -1 && offset - numbersStart > LONG_LIST) {
      cuts.push({ start: numbersStart, end: offset + 1 })
      cutBytes += offset - numbersStart
      numbersStart = -1
    } else endNumbers()
    endMember()
    contentEnd = offset + 1
    depth -= 1
    next = NEXT.commaOrClose
  }

  function endElement(): void {
    if (next !== NEXT.commaOrClose || depth === 0) throw malformed()
    endMember()
    if (depth === 2 && member !== undefined && isInObject[2] === 0) split()
    next = isInObject[depth] === 1 ? NEXT.name : NEXT.value
    if (numbersStart === -1) countValue()
    else numbers += 1
  }

  /** The current list is not cut as a list of numbers, so its elements count as values. */
  function endNumbers(): void {
    if (numbersStart === -1) return
    numbersStart = -1
    values += numbers
    if (values > limits.values) throw tooManyValues()
  }

  const tooManyValues = () => new JsonError(`contains more than ${limits.values} values`)

  function countValue(): void {
    values += 1
    if (values > limits.values) throw tooManyValues()
  }

  function beginText(): void {
    isInText = true
    textStart = offset
    isName = next === NEXT.name || next === NEXT.nameOrClose
    if (!isName) {
      beginValue()
      endNumbers()
    }
    hash = FNV_START
  }

  function endText(): void {
    isInText = false
    contentEnd = offset + 1
    if (isName) {
      next = NEXT.colon
      if (depth === 1) member = { start: textStart, nameEnd: offset + 1, valueStart: 0 }
      names.add(hash)
      if (names.size > limits.names) throw new JsonError(`contains more than ${limits.names} different names`)
      return
    }
    next = NEXT.commaOrClose
    texts += 1
    if (texts > limits.texts) throw new JsonError(`contains more than ${limits.texts} strings`)
    const length = offset - textStart
    const isSmall = offset - cutBytes < SMALL_SKELETON_BYTES || depth < 2
    if (length <= (isSmall ? LONG_TEXT : SHORT_TEXT)) return
    cuts.push({ start: textStart, end: offset + 1 })
    cutBytes += length
  }

  /** The parser does not see texts that are cut, so their escapes are validated here. */
  function scanEscape(byte: number): void {
    const isGood = hexLeft > 0 ? HEX.has(byte) : ESCAPES.has(byte)
    if (!isGood) throw malformed()
    hexLeft = hexLeft > 0 ? hexLeft - 1 : byte === LOWER_U ? 4 : 0
    isEscaped = false
  }

  /** Scans a text up to its closing quote or the end of the piece; returns the index of that position. */
  function scanText(piece: Buffer, from: number): number {
    let i = from
    while (i < piece.length) {
      const byte = piece[i] as number
      if (isEscaped || hexLeft > 0) scanEscape(byte)
      else if (byte === BACKSLASH) isEscaped = true
      else if (byte === QUOTE) return i
      else if (byte < SPACE) throw malformed()
      if (isName) hash = Math.imul(hash ^ byte, FNV_PRIME)
      i += 1
    }
    return i
  }

  /** Scans a number or `true`, `false`, `null` up to its end or the end of the piece. */
  function scanWord(piece: Buffer, from: number): number {
    let i = from
    while (i < piece.length) {
      const byte = piece[i] as number
      if (byte === COMMA || byte === CLOSE_ARRAY || byte === CLOSE_OBJECT || byte <= SPACE) break
      wordState = nextWordState(wordState, byte)
      if (wordState === MALFORMED) throw malformed()
      i += 1
    }
    wordLength += i - from
    if (wordLength > MAX_WORD) throw new JsonError(`contains a number of more than ${MAX_WORD} digits`)
    return i
  }

  function endWord(): void {
    if (!isWordEnd(wordState)) throw malformed()
    contentEnd = offset
    wordLength = 0
    wordState = 0
    next = NEXT.commaOrClose
  }

  /** Scans one byte outside texts and words. */
  function scanByte(byte: number): void {
    switch (byte) {
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
        close(true)
        break
      case CLOSE_ARRAY:
        close(false)
        break
      case COMMA:
        endElement()
        break
      case COLON:
        if (next !== NEXT.colon) throw malformed()
        next = NEXT.value
        nameCount += 1
        break
      case SPACE:
      case LF:
      case CR:
      case TAB:
        // A list with long runs of spaces is not cut as a list of numbers.
        if (offset - contentEnd > LONG_LIST) endNumbers()
        break
      default:
        throw malformed()
    }
  }

  return {
    push(piece: Buffer): void {
      const base = offset
      let i = 0
      while (i < piece.length) {
        const byte = piece[i] as number
        if (isInText) {
          i = scanText(piece, i)
          offset = base + i
          if (i === piece.length) return
          endText()
          i += 1
        } else if (wordState !== 0 || nextWordState(0, byte) !== MALFORMED) {
          offset = base + i
          if (wordState === 0) beginValue()
          i = scanWord(piece, i)
          offset = base + i
          if (i === piece.length) return
          endWord()
        } else {
          offset = base + i
          scanByte(byte)
          i += 1
        }
      }
      offset = base + piece.length
    },
    end(): Scan {
      // Fail here on an unterminated text: it is not cut, and the parser would have to read all of it.
      if (isInText) throw malformed()
      if (wordState !== 0) endWord()
      if (depth > 0 || next !== NEXT.commaOrClose) throw malformed()
      const otherBytes = offset - cutBytes
      if (otherBytes > limits.otherBytes)
        throw new JsonError(`contains more than ${limits.otherBytes} bytes besides its long strings`)
      const isParsable =
        texts <= SCAN_LIMITS.texts && values <= SCAN_LIMITS.values && otherBytes <= SCAN_LIMITS.otherBytes
      return { cuts, members, isParsable, nameCount }
    },
  }
}
