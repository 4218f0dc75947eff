import { opusPacketMs } from './opus.ts'
import { piecesOf, type Sound } from './sound.ts'

const PAGE_HEAD = 27
const MAX_PAGE = PAGE_HEAD + 255 + 255 * 255
const CONTINUED = 1

type Codec =
  | { readonly name: 'opus' }
  | { readonly name: 'vorbis'; readonly rate: number; readonly block: number }

/** The codec that the first packet names. */
function codecIn(packet: Buffer): Codec | undefined {
  if (packet.toString('latin1', 0, 8) === 'OpusHead') return { name: 'opus' }
  if (packet.toString('latin1', 0, 7) !== '\x01vorbis' || packet.length < 29) return undefined
  const rate = packet.readUInt32LE(12)
  return rate === 0 ? undefined : { name: 'vorbis', rate, block: 2 ** ((packet[28] ?? 0) >> 4) }
}

/** Packets before the audio: comments, and Vorbis codebooks. */
const HEADERS = ['OpusTags', '\x03vorbis', '\x05vorbis']
const isHeader = (packet: Buffer) => {
  const begin = packet.toString('latin1', 0, 8)
  return HEADERS.some(name => begin.startsWith(name))
}

/**
 * The seconds of an Ogg file, measured by its packets: the positions in its page headers may be false. An Opus packet
 * encodes its duration. A Vorbis packet lasts at most half of a long block, and most do.
 */
export async function oggSeconds(file: Sound): Promise<number> {
  let codec: Codec | undefined
  let seconds = 0
  let pending: Buffer = Buffer.alloc(0)

  function countPacket(packet: Buffer): void {
    const newCodec = codecIn(packet)
    codec = newCodec ?? codec
    if (newCodec || !codec || packet.length === 0 || isHeader(packet)) return
    seconds +=
      codec.name === 'opus'
        ? opusPacketMs(packet[0] ?? 0, packet[1] ?? 0) / 1000
        : codec.block / 2 / codec.rate
  }

  /** Counts the packets that begin in a page. The continuation of an earlier packet is not counted again. */
  function readPage(page: Buffer, segments: number): void {
    const isContinued = ((page[5] ?? 0) & CONTINUED) !== 0
    let isFirst = true
    let start = PAGE_HEAD + segments
    let length = 0
    for (let at = 0; at < segments; at += 1) {
      const size = page[PAGE_HEAD + at] ?? 0
      length += size
      if (size === 255 && at < segments - 1) continue
      if (!(isFirst && isContinued)) countPacket(page.subarray(start, start + length))
      isFirst = false
      start += length
      length = 0
    }
  }

  for await (const piece of piecesOf(file)) {
    const bytes = pending.length === 0 ? piece : Buffer.concat([pending, piece])
    let at = bytes.indexOf('OggS')
    while (at >= 0 && at + PAGE_HEAD <= bytes.length) {
      const segments = bytes[at + 26] ?? 0
      const table = bytes.subarray(at + PAGE_HEAD, at + PAGE_HEAD + segments)
      const end = at + PAGE_HEAD + segments + table.reduce((sum, size) => sum + size, 0)
      if (table.length < segments || end > bytes.length) break
      readPage(bytes.subarray(at, end), segments)
      at = bytes.indexOf('OggS', end)
    }
    pending = at < 0 ? Buffer.from(bytes.subarray(-4)) : Buffer.from(bytes.subarray(at, at + MAX_PAGE))
  }
  return seconds
}
