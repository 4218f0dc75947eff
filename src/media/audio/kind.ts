/** Audio containers and codecs. */
export type SoundKind = 'wav' | 'mp3' | 'flac' | 'ogg' | 'mp4' | 'webm' | 'aac' | 'mpeg'

const SYNC_WITHIN = 4_096

/** Detects the kind of a file by its first bytes, because its name may be wrong. */
export function soundKind(head: Buffer): SoundKind | undefined {
  const has = (text: string, at: number) => head.toString('latin1', at, at + text.length) === text
  if (has('RIFF', 0) && has('WAVE', 8)) return 'wav'
  if (has('RF64', 0) && has('WAVE', 8)) return 'wav'
  if (has('fLaC', 0)) return 'flac'
  if (has('OggS', 0)) return 'ogg'
  if (has('ftyp', 4)) return 'mp4'
  if (head.length >= 4 && head.readUInt32BE(0) === 0x1a45dfa3) return 'webm'
  if (has('ID3', 0)) return 'mp3'
  if (head.length >= 4 && (head.readUInt32BE(0) === 0x1ba || head.readUInt32BE(0) === 0x1b3)) return 'mpeg'
  // The same sync word; AAC has layer 0, which MPEG audio never has.
  if (head[0] === 0xff && ((head[1] ?? 0) & 0xf6) === 0xf0) return 'aac'
  return isMpegSound(head) ? 'mp3' : undefined
}

/**
 * Encoders may put silence or garbage before the first frame, so it is searched for. Two consecutive frames rule out
 * chance.
 */
function isMpegSound(head: Buffer): boolean {
  const within = Math.min(head.length - 4, SYNC_WITHIN)
  for (let at = 0; at <= within; at += 1) {
    const first = mpegFrame(head, at)
    if (first === undefined) continue
    const next = at + first.bytes
    if (next + 4 > head.length || mpegFrame(head, next) !== undefined) return true
  }
  return false
}

export type SoundFrame = {
  readonly bytes: number
  readonly samples: number
  readonly rate: number
  readonly bitrate: number
}

/** kbit/s by index, for MPEG 1 and for 2 and 2.5, by layer. */
const BITRATES = {
  1: {
    1: [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    2: [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    3: [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  },
  2: {
    1: [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    2: [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    3: [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
  },
} as const
const MPEG_RATES = [44_100, 48_000, 32_000] as const

/** Of the second byte, the first three bits are set in every frame. */
const FRAME_BITS = 0x1fff
/**
 * Frames by the two bytes that determine them, as far as they occurred; null: there is no such frame. An array, because a megabyte of audio
 * has thousands of frames, and a look-up in a map takes 15 ns.
 */
const mpegFrames: (SoundFrame | null | undefined)[] = Array(FRAME_BITS + 1).fill(undefined)

/** The frame of MPEG audio at this offset, if there is one. */
export function mpegFrame(bytes: Buffer, at: number): SoundFrame | undefined {
  if (at + 4 > bytes.length || bytes[at] !== 0xff) return undefined
  const second = bytes[at + 1] as number
  if ((second & 0xe0) !== 0xe0) return undefined
  const third = bytes[at + 2] as number
  const kind = ((second << 8) | third) & FRAME_BITS
  let frame = mpegFrames[kind]
  if (frame === undefined) {
    frame = readMpegFrame(second, third) ?? null
    mpegFrames[kind] = frame
  }
  return frame ?? undefined
}

/** The frame whose header has these bytes after the first one. */
function readMpegFrame(second: number, third: number): SoundFrame | undefined {
  const version = (second >> 3) & 3
  const layer = 4 - ((second >> 1) & 3)
  if (version === 1 || layer === 4) return undefined
  const family = version === 3 ? 1 : 2
  const kbits = BITRATES[family][layer as 1 | 2 | 3][third >> 4]
  const base = MPEG_RATES[(third >> 2) & 3]
  if (!kbits || base === undefined) return undefined
  const rate = version === 3 ? base : version === 2 ? base / 2 : base / 4
  const samples = layer === 1 ? 384 : layer === 3 && family === 2 ? 576 : 1152
  const padding = (third >> 1) & 1
  const bitrate = kbits * 1000
  const bytesLong =
    layer === 1
      ? (Math.floor((12 * bitrate) / rate) + padding) * 4
      : Math.floor(((samples / 8) * bitrate) / rate) + padding
  return { bytes: bytesLong, samples, rate, bitrate }
}

export const AAC_RATES = [
  96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350,
]
const AAC_SAMPLES = 1024

/** The same for AAC in ADTS frames. */
export function aacFrame(bytes: Buffer, at: number): SoundFrame | undefined {
  if (at + 7 > bytes.length || bytes[at] !== 0xff) return undefined
  const byte = (offset: number) => bytes[at + offset] ?? 0
  if ((byte(1) & 0xf6) !== 0xf0) return undefined
  const rate = AAC_RATES[(byte(2) >> 2) & 15]
  const length = ((byte(3) & 3) << 11) | (byte(4) << 3) | (byte(5) >> 5)
  if (rate === undefined || length < 7) return undefined
  const blocks = (byte(6) & 3) + 1
  return {
    bytes: length,
    samples: AAC_SAMPLES * blocks,
    rate,
    bitrate: (length * 8 * rate) / (AAC_SAMPLES * blocks),
  }
}
