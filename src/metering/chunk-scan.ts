import { setImmediate } from 'node:timers/promises'
import {
  BACKSLASH,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  LOWER_N,
  LOWER_U,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  SPACE,
} from '../wire/ascii.ts'
import type { Cut } from '../wire/json-scan.ts'
import { textBorder } from '../wire/json-slices.ts'
import type { TextSample } from './text-sample.ts'

/**
 * The facts of an answer, or of one chunk, from a scan of its bytes. Most chunks carry a few characters inside an
 * envelope of three hundred bytes. One pass over the bytes finds them without creating objects and strings.
 */
type ChunkScan = {
  /** UTF-8 bytes of the output: text, refusals, names and arguments of tool calls, transcripts. */
  readonly textBytes: number
  readonly reasoningBytes: number
  /** Images or audio, which have no text to count. */
  readonly hasMedia: boolean
  /** The number of choices with a finish reason. */
  readonly finishes: number
  /** It has a `usage` or `error` other than null, so it is worth parsing. */
  readonly isNotable: boolean
  /** It starts as an object and all brackets match; false: certainly not a chunk. */
  readonly isBalanced: boolean
}

/** The member of a choice with the text: `delta` in a stream, `message` otherwise. */
type ChoiceMember = 'delta' | 'message'

type Meaning =
  | 'text'
  | 'reasoning_content'
  | 'reasoning'
  | 'media'
  | 'aside'
  | 'usage'
  | 'error'
  | 'finish'
  | ChoiceMember

const KEYS: Readonly<Record<string, Meaning>> = {
  content: 'text',
  text: 'text',
  refusal: 'text',
  name: 'text',
  arguments: 'text',
  input: 'text',
  transcript: 'text',
  reasoning_content: 'reasoning_content',
  thinking: 'reasoning_content',
  reasoning: 'reasoning',
  data: 'media',
  url: 'media',
  b64_json: 'media',
  // The same reasoning again with signatures, and the output of others.
  reasoning_details: 'aside',
  annotations: 'aside',
  usage: 'usage',
  error: 'error',
  finish_reason: 'finish',
  delta: 'delta',
  message: 'message',
}

type Key = { readonly bytes: Buffer; readonly meaning: Meaning }

const KEYS_BY_LENGTH: readonly (readonly Key[] | undefined)[] = groupByLength(
  Object.entries(KEYS).map(([name, meaning]) => ({ bytes: Buffer.from(name), meaning })),
)

function groupByLength(keys: readonly Key[]): (readonly Key[] | undefined)[] {
  const groups = Map.groupBy(keys, key => key.bytes.length)
  return Array.from({ length: Math.max(...groups.keys()) + 1 }, (_, length) => groups.get(length))
}

/** Nesting depths: the answer is 1, its list of choices 2, a choice 3. */
const ANSWER_DEPTH = 1
const CHOICE_DEPTH = 3
const NOT_IN = Number.MAX_SAFE_INTEGER

type Counted = 'textBytes' | 'reasoningBytes' | 'reasoningContentBytes'

type ScanState = {
  -readonly [name in keyof ChunkScan]: ChunkScan[name]
} & {
  readonly part: ChoiceMember
  readonly sample: TextSample | undefined
  /** Long texts whose length is counted later, in slices; undefined: all are counted immediately. */
  deferred: { readonly from: number; readonly to: number; readonly name: Counted }[] | undefined
  /** The ends of long texts by their starts; undefined: every text is scanned. */
  ends: ReadonlyMap<number, number> | undefined
  depth: number
  /** The meaning of the key whose value follows. */
  meaning: Meaning | undefined
  /** The depth of the enclosing part. */
  partDepth: number
  asideDepth: number
  thinkingDepth: number
  /** Some hosts send the same reasoning under both names: it counts once. */
  reasoningContentBytes: number
}

/**
 * Scans the JSON at [start, end) of `source` once, and adds generated text to the sample, if there is one. Invalid JSON
 * yields a useless result, never an error.
 */
export function scanChunk(
  source: Buffer,
  start: number,
  end: number,
  part: ChoiceMember,
  sample?: TextSample,
): ChunkScan {
  const state = begin(part, sample)
  const last = scanTo(state, source, { from: start, stop: end, end })
  return finished(state, source[start], last === end)
}

/** Bytes that are scanned per turn of the event loop. */
const SLICE_BYTES = 128 * 1024

/** The same for a document of any size, without blocking the event loop. `cuts`: its long texts, from an earlier scan. */
export async function scanChunkInSlices(
  source: Buffer,
  cuts: readonly Cut[],
  part: ChoiceMember,
  sample?: TextSample,
): Promise<ChunkScan> {
  const state = begin(part, sample)
  const end = source.length
  state.ends = new Map(cuts.map(cut => [cut.start, cut.end - 1]))
  const deferred: NonNullable<ScanState['deferred']> = []
  state.deferred = deferred
  let last = 0
  while (last < end) {
    last = scanTo(state, source, { from: last, stop: Math.min(end, last + SLICE_BYTES), end })
    await setImmediate()
  }
  for (const { from, to, name } of deferred)
    for (let at = from; at < to; ) {
      const next = at + SLICE_BYTES < to ? textBorder(source, at, at + SLICE_BYTES) : to
      state[name] += decodedLength(source, at, next)
      at = next
      await setImmediate()
    }
  return finished(state, source[0], last === end)
}

function finished(state: ScanState, first: number | undefined, isAtEnd: boolean): ChunkScan {
  state.isBalanced = first === OPEN_OBJECT && state.depth === 0 && isAtEnd
  state.reasoningBytes = Math.max(state.reasoningBytes, state.reasoningContentBytes)
  return state
}

type Range = { readonly from: number; readonly stop: number; readonly end: number }

/** Continues at `from` to the first token boundary after `stop`, which it returns. */
function scanTo(state: ScanState, source: Buffer, { from, stop, end }: Range): number {
  let i = from
  while (i < stop) {
    switch (source[i]) {
      case QUOTE: {
        const close = state.ends?.get(i) ?? closingQuote(source, i + 1, end)
        const after = skipSpace(source, close + 1, end)
        if (after < end && source[after] === COLON) {
          const valueStart = skipSpace(source, after + 1, end)
          state.meaning = meaningOf(source, i + 1, close)
          if (state.meaning !== undefined) takeKey(state, source, valueStart)
          i = valueStart
        } else {
          if (close > i + 1) takeText(state, source, i + 1, close)
          i = after
        }
        break
      }
      case OPEN_OBJECT:
      case OPEN_ARRAY:
        state.depth += 1
        i += 1
        break
      case CLOSE_OBJECT:
      case CLOSE_ARRAY:
        leave(state)
        i += 1
        break
      default:
        i += 1
    }
  }
  return i
}

const begin = (part: ChoiceMember, sample: TextSample | undefined): ScanState => ({
  part,
  sample,
  deferred: undefined,
  ends: undefined,
  depth: 0,
  meaning: undefined,
  partDepth: NOT_IN,
  asideDepth: NOT_IN,
  thinkingDepth: NOT_IN,
  textBytes: 0,
  reasoningBytes: 0,
  reasoningContentBytes: 0,
  hasMedia: false,
  finishes: 0,
  isNotable: false,
  isBalanced: false,
})

function takeKey(state: ScanState, source: Buffer, valueStart: number): void {
  const value = source[valueStart]
  if (value === LOWER_N) return
  const { meaning, depth } = state
  switch (meaning) {
    case 'usage':
      state.isNotable = true
      return
    case 'error':
      if (depth === ANSWER_DEPTH) state.isNotable = true
      return
    case 'finish':
      if (depth === CHOICE_DEPTH && value === QUOTE && source[valueStart + 1] !== QUOTE) state.finishes += 1
      return
    case state.part:
      if (depth === CHOICE_DEPTH) state.partDepth = depth
      return
    default:
      if (value === QUOTE || depth <= state.partDepth) return
      if (meaning === 'aside' && state.asideDepth === NOT_IN) state.asideDepth = depth
      if (meaning === 'reasoning_content' && state.thinkingDepth === NOT_IN) state.thinkingDepth = depth
  }
}

/** A non-empty text value at [from, to). */
function takeText(state: ScanState, source: Buffer, from: number, to: number): void {
  const { meaning, depth } = state
  // A choice of a plain completion contains its text itself.
  const isPlain = meaning === 'text' && depth === CHOICE_DEPTH && state.partDepth === NOT_IN
  const isInPart = depth > state.partDepth && depth <= state.asideDepth
  if (!isInPart && !isPlain) return
  if (depth > state.thinkingDepth) {
    if (meaning === 'text') count(state, 'reasoningContentBytes', source, from, to)
    return
  }
  switch (meaning) {
    case 'text':
      count(state, 'textBytes', source, from, to)
      state.sample?.take(source, from, to)
      return
    case 'reasoning_content':
      state.sample?.take(source, from, to)
      count(state, 'reasoningContentBytes', source, from, to)
      return
    case 'reasoning':
      state.sample?.take(source, from, to)
      count(state, 'reasoningBytes', source, from, to)
      return
    case 'media':
      state.hasMedia = true
      return
    default:
  }
}

function count(state: ScanState, name: Counted, source: Buffer, from: number, to: number): void {
  if (state.deferred !== undefined && to - from > SLICE_BYTES) state.deferred.push({ from, to, name })
  else state[name] += decodedLength(source, from, to)
}

function leave(state: ScanState): void {
  state.depth -= 1
  if (state.depth <= state.partDepth) state.partDepth = NOT_IN
  if (state.depth <= state.asideDepth) state.asideDepth = NOT_IN
  if (state.depth <= state.thinkingDepth) state.thinkingDepth = NOT_IN
}

function meaningOf(source: Buffer, from: number, to: number): Meaning | undefined {
  const keys = KEYS_BY_LENGTH[to - from]
  if (keys === undefined) return undefined
  for (const { bytes, meaning } of keys) {
    let i = 0
    while (i < bytes.length && source[from + i] === bytes[i]) i += 1
    if (i === bytes.length) return meaning
  }
  return undefined
}

function closingQuote(source: Buffer, from: number, end: number): number {
  let i = from
  while (i < end && source[i] !== QUOTE) i += source[i] === BACKSLASH ? 2 : 1
  return i
}

function skipSpace(source: Buffer, from: number, end: number): number {
  let i = from
  while (i < end && (source[i] as number) <= SPACE) i += 1
  return i
}

/** The number of UTF-8 bytes that a JSON text decodes to. */
function decodedLength(source: Buffer, from: number, to: number): number {
  let length = 0
  let i = from
  while (i < to) {
    if (source[i] !== BACKSLASH) {
      length += 1
      i += 1
    } else if (source[i + 1] !== LOWER_U) {
      length += 1
      i += 2
    } else {
      length += utf8Length(Number.parseInt(source.toString('latin1', i + 2, i + 6), 16))
      i += 6
    }
  }
  return length
}

/** Half of a surrogate pair counts as half of the four bytes of the pair. */
function utf8Length(unit: number): number {
  if (unit < 0x80) return 1
  if (unit < 0x800) return 2
  return unit >= 0xd800 && unit <= 0xdfff ? 2 : 3
}
