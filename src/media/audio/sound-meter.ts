import { aacFrame, mpegFrame, type SoundFrame } from './kind.ts'

/** Measures the duration of audio that arrives in chunks of any size. */
export type SoundMeter = { push(chunk: Buffer): void; seconds(): number }

/** Longer than any header or frame that is parsed. */
const MAX_KEPT_BYTES = 65_536
const PCM_BYTES_PER_SECOND = 48_000

/** Raw samples as speech vendors send them: 24 kHz, 16 bits, mono. */
function meterPcm(): SoundMeter {
  let bytes = 0
  return {
    push(chunk) {
      bytes += chunk.length
    },
    seconds: () => bytes / PCM_BYTES_PER_SECOND,
  }
}

/** Buffers chunks until `read` returns how many bytes it has consumed. */
function gatherer(read: (bytes: Buffer) => number): (chunk: Buffer) => void {
  let pending: Buffer = Buffer.alloc(0)
  let skip = 0
  return chunk => {
    let bytes = chunk
    if (skip > 0) {
      const skipped = Math.min(skip, bytes.length)
      skip -= skipped
      bytes = bytes.subarray(skipped)
    }
    if (bytes.length === 0) return
    const all = pending.length === 0 ? bytes : Buffer.concat([pending, bytes])
    const used = read(all)
    skip = Math.max(0, used - all.length)
    const rest = all.subarray(Math.min(used, all.length))
    pending = rest.length > MAX_KEPT_BYTES ? Buffer.alloc(0) : Buffer.from(rest)
  }
}

function meterFrames(
  frameAt: (bytes: Buffer, at: number) => SoundFrame | undefined,
  header: number,
  tagAt: typeof tagLength = tagLength,
): SoundMeter {
  let seconds = 0
  const push = gatherer(bytes => {
    let at = 0
    while (at + header <= bytes.length) {
      const tag = tagAt(bytes, at)
      if (tag > 0) {
        at += tag
        continue
      }
      const frame = frameAt(bytes, at)
      if (frame === undefined) {
        at = nextStart(bytes, at + 1)
        continue
      }
      seconds += frame.samples / frame.rate
      at += frame.bytes
    }
    return at
  })
  return { push, seconds: () => seconds }
}

/** The offset where the next frame or tag may begin, else the end. Scanning byte by byte would cost more than the rest. */
function nextStart(bytes: Buffer, at: number): number {
  const frame = bytes.indexOf(0xff, at)
  const end = frame < 0 ? bytes.length : frame
  const tag = bytes.subarray(at, end).indexOf('ID3')
  return tag < 0 ? end : at + tag
}

const TAG_HEADER = 10
const I = 0x49

/** The length of the ID3 tag at this offset; 0: none. */
export function tagLength(bytes: Buffer, at: number): number {
  // One byte is enough to rule out a tag before nearly every frame.
  if (bytes[at] !== I || at + TAG_HEADER > bytes.length) return 0
  if (bytes.toString('latin1', at, at + 3) !== 'ID3') return 0
  const [a = 0, b = 0, c = 0, d = 0] = bytes.subarray(at + 6, at + TAG_HEADER)
  return TAG_HEADER + ((a & 127) << 21) + ((b & 127) << 14) + ((c & 127) << 7) + (d & 127)
}

function meterWav(): SoundMeter {
  let bytesPerSecond = 0
  let sound = 0
  const push = gatherer(bytes => {
    if (bytesPerSecond > 0) {
      sound += bytes.length
      return bytes.length
    }
    const at = bytes.indexOf('fmt ')
    const data = bytes.indexOf('data')
    if (at < 0 || data < at + 16 || data + 8 > bytes.length) return 0
    bytesPerSecond = Math.max(1, bytes.readUInt32LE(at + 16))
    sound = bytes.length - data - 8
    return bytes.length
  })
  return { push, seconds: () => (bytesPerSecond === 0 ? 0 : sound / bytesPerSecond) }
}

const OPUS_RATE = 48_000
const PAGE_HEADER = 27
const NO_GRANULE = 0xffffffffffffffffn

/** The sample rate and first sample of an Ogg stream, from its first packet. */
export function oggHead(bytes: Buffer): { rate: number; skip: number; isVorbis: boolean } | undefined {
  const opus = bytes.indexOf('OpusHead')
  if (opus >= 0 && opus + 12 <= bytes.length)
    return { rate: OPUS_RATE, skip: bytes.readUInt16LE(opus + 10), isVorbis: false }
  const vorbis = bytes.indexOf('\x01vorbis', 0, 'latin1')
  if (vorbis >= 0 && vorbis + 16 <= bytes.length)
    return { rate: Math.max(1, bytes.readUInt32LE(vorbis + 12)), skip: 0, isVorbis: true }
  return undefined
}

/** The highest end position of any page in these bytes. */
export function lastGranule(bytes: Buffer): number {
  let last = 0
  for (let at = bytes.indexOf('OggS'); at >= 0; at = bytes.indexOf('OggS', at + 4)) {
    if (at + PAGE_HEADER > bytes.length) break
    const granule = bytes.readBigUInt64LE(at + 6)
    if (granule !== NO_GRANULE && granule < 2n ** 53n) last = Math.max(last, Number(granule))
  }
  return last
}

function meterOgg(): SoundMeter {
  let head: ReturnType<typeof oggHead>
  let granule = 0
  const push = gatherer(bytes => {
    head ??= oggHead(bytes)
    granule = Math.max(granule, lastGranule(bytes))
    // The header of a page may span two chunks.
    return head ? Math.max(0, bytes.length - PAGE_HEADER) : 0
  })
  return { push, seconds: () => (head ? Math.max(0, granule - head.skip) / head.rate : 0) }
}

const FLAC_RATES = [
  0, 88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000,
]
const FLAC_HEADER = 16

/** FLAC frames do not state their length, so each is detected by its sync word and the checksum of its header. */
function meterFlac(): SoundMeter {
  let seconds = 0
  let rate = 0
  const push = gatherer(bytes => {
    const info = rate === 0 ? bytes.indexOf('fLaC') : -1
    if (info >= 0 && info + 21 <= bytes.length) rate = bytes.readUIntBE(info + 18, 3) >> 4
    let at = 0
    while (at + FLAC_HEADER <= bytes.length) {
      const next = bytes.indexOf(0xff, at)
      if (next < 0) return bytes.length
      at = next
      if (at + FLAC_HEADER > bytes.length) break
      const frame = flacFrame(bytes, at)
      if (frame) seconds += frame.samples / (frame.rate || rate || OPUS_RATE)
      at += 1
    }
    return at
  })
  return { push, seconds: () => seconds }
}

function flacFrame(bytes: Buffer, at: number): { samples: number; rate: number } | undefined {
  if (bytes[at] !== 0xff || ((bytes[at + 1] ?? 0) & 0xfe) !== 0xf8) return undefined
  const third = bytes[at + 2] ?? 0
  const sizeCode = third >> 4
  const rateCode = third & 15
  const number = utf8Length(bytes[at + 4] ?? 0)
  if (sizeCode === 0 || rateCode === 15 || number === 0 || ((bytes[at + 3] ?? 0) & 1) !== 0) return undefined
  let next = at + 4 + number
  let samples = sizeCode === 1 ? 192 : sizeCode <= 5 ? 576 * 2 ** (sizeCode - 2) : 256 * 2 ** (sizeCode - 8)
  if (sizeCode === 6) samples = (bytes[next++] ?? 0) + 1
  if (sizeCode === 7) {
    samples = bytes.readUInt16BE(next) + 1
    next += 2
  }
  let rate = FLAC_RATES[rateCode] ?? 0
  if (rateCode === 12) rate = (bytes[next++] ?? 0) * 1000
  if (rateCode === 13 || rateCode === 14) {
    rate = bytes.readUInt16BE(next) * (rateCode === 14 ? 10 : 1)
    next += 2
  }
  return crc8(bytes, at, next) === bytes[next] ? { samples, rate } : undefined
}

function utf8Length(first: number): number {
  if (first < 0x80) return 1
  const ones = Math.clz32(~(first << 24))
  return ones >= 2 && ones <= 7 ? ones : 0
}

function crc8(bytes: Buffer, start: number, end: number): number {
  let crc = 0
  for (let at = start; at < end; at += 1) {
    crc ^= bytes[at] ?? 0
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x80 ? ((crc << 1) ^ 0x07) & 0xff : (crc << 1) & 0xff
  }
  return crc
}

/** Decoders skip a tag only before the audio. Among frames it must not hide any of them. */
const noTag = () => 0

/** A frame meter for uploads, whose sender gains by a shorter length. */
export const createFrameMeter = (kind: 'mp3' | 'aac'): SoundMeter =>
  kind === 'aac' ? meterFrames(aacFrame, 7, noTag) : meterFrames(mpegFrame, 4, noTag)

const METERS: readonly (readonly [RegExp, () => SoundMeter])[] = [
  [/mpeg|mp3/, () => meterFrames(mpegFrame, 4)],
  [/aac/, () => meterFrames(aacFrame, 7)],
  [/wav/, meterWav],
  [/ogg|opus/, meterOgg],
  [/flac/, meterFlac],
  [/pcm|l16/, meterPcm],
]

/** A meter for audio of this type; undefined: its length cannot be measured. */
export function createSoundMeter(contentType: string): SoundMeter | undefined {
  return METERS.find(([type]) => type.test(contentType.toLowerCase()))?.[1]()
}
