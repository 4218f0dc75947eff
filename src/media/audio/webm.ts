import { opusPacketMs } from './opus.ts'
import type { Sound } from './sound.ts'

const ID = {
  segment: 0x18538067,
  info: 0x1549a966,
  scale: 0x2ad7b1,
  duration: 0x4489,
  cluster: 0x1f43b675,
  time: 0xe7,
  group: 0xa0,
  block: 0xa1,
  simpleBlock: 0xa3,
  tracks: 0x1654ae6b,
  entry: 0xae,
  trackNumber: 0xd7,
  codec: 0x86,
} as const

/** Elements whose content is parsed as elements; all others are skipped by their size. */
const ENTERED: ReadonlySet<number> = new Set([ID.segment, ID.info, ID.cluster, ID.group, ID.tracks, ID.entry])

const CLUSTER = Buffer.from(ID.cluster.toString(16), 'hex')
/** The assumed maximum duration of a cluster without readable blocks. */
const CLUSTER_SECONDS = 5
const NANOS = 1e9
const DEFAULT_SCALE = 1_000_000
const MAX_ELEMENTS = 5_000_000
const VALUE_BYTES = 16
const WINDOW_BYTES = 262_144

/** A number of variable length, encoded in its first byte. Ids keep the length marker, sizes do not. */
function variable(bytes: Buffer, at: number, keepMark: boolean): { value: number; end: number } | undefined {
  const first = bytes[at]
  if (first === undefined || first === 0) return undefined
  const width = Math.clz32(first) - 23
  if (at + width > bytes.length) return undefined
  let value = keepMark ? first : first & (0xff >> width)
  for (let next = 1; next < width; next += 1) value = value * 256 + (bytes[at + next] ?? 0)
  return { value, end: at + width }
}

const numberIn = (bytes: Buffer): number =>
  bytes.length > 0 && bytes.length <= 6 ? bytes.readUIntBE(0, bytes.length) : 0

const floatIn = (bytes: Buffer): number =>
  bytes.length === 4 ? bytes.readFloatBE(0) : bytes.length === 8 ? bytes.readDoubleBE(0) : 0

type Element = { readonly id: number; readonly value: Buffer }

/** The elements of a file in order, each with its first bytes. */
async function* elementsOf(file: Sound): AsyncGenerator<Element> {
  let window: Buffer = Buffer.alloc(0)
  let from = 0
  for (let at = 0, count = 0; at < file.size && count < MAX_ELEMENTS; count += 1) {
    if (at < from || at + 2 * VALUE_BYTES > from + window.length) {
      window = await file.read(at, WINDOW_BYTES)
      from = at
    }
    const id = variable(window, at - from, true)
    const size = id && variable(window, id.end, false)
    if (!id || !size) {
      // Like decoders, skips unreadable bytes up to the next cluster.
      const next = window.indexOf(CLUSTER, at - from + 1)
      at = next >= 0 ? from + next : Math.max(at + 1, from + window.length - CLUSTER.length + 1)
      continue
    }
    yield { id: id.value, value: window.subarray(size.end, size.end + Math.min(size.value, VALUE_BYTES)) }
    at = from + size.end + (ENTERED.has(id.value) ? 0 : size.value)
  }
}

/**
 * The seconds of a WebM: the maximum of the header, the time of the last block, and the Opus packets of the longest
 * track.
 */
export async function webmSeconds(file: Sound): Promise<number | undefined> {
  let scale = DEFAULT_SCALE
  let statedDuration = 0
  let cluster = 0
  let last = 0
  let track = 0
  let hasBlocks = false
  const opus = new Map<number, number>()

  function countBlock(block: Buffer): void {
    const number = variable(block, 0, false)
    if (!number || number.end + 5 > block.length) return
    last = Math.max(last, cluster + block.readInt16BE(number.end))
    hasBlocks = true
    const opusSeconds = opus.get(number.value)
    const packet = number.end + 3
    if (opusSeconds !== undefined)
      opus.set(number.value, opusSeconds + opusPacketMs(block[packet] ?? 0, block[packet + 1] ?? 0) / 1000)
  }

  for await (const { id, value } of elementsOf(file)) {
    if (id === ID.scale) scale = numberIn(value) || DEFAULT_SCALE
    else if (id === ID.duration) statedDuration = floatIn(value)
    else if (id === ID.time) cluster = numberIn(value)
    else if (id === ID.trackNumber) track = numberIn(value)
    else if (id === ID.codec && value.toString('latin1').startsWith('A_OPUS')) opus.set(track, 0)
    else if (id === ID.simpleBlock || id === ID.block) countBlock(value)
    last = Math.max(last, cluster)
  }
  const rest = hasBlocks || last === 0 ? 0 : CLUSTER_SECONDS
  const seconds = Math.max((statedDuration * scale) / NANOS, (last * scale) / NANOS + rest, ...opus.values())
  return Number.isFinite(seconds) && seconds > 0 ? seconds : undefined
}
