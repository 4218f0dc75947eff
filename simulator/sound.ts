/** Silence in every audio format, of a length that can be checked by its headers. */

const RATE = 24_000

/** `pieces` are about a second each. */
export const SOUNDS = {
  mp3: { type: 'audio/mpeg', pieces: mp3 },
  wav: { type: 'audio/wav', pieces: wav },
  pcm: { type: 'audio/pcm', pieces: pcm },
  aac: { type: 'audio/aac', pieces: aac },
  opus: { type: 'audio/ogg', pieces: opus },
  flac: { type: 'audio/flac', pieces: flac },
} as const
export type SoundName = keyof typeof SOUNDS

export const isSoundName = (name: string): name is SoundName => Object.hasOwn(SOUNDS, name)

const MP3_FRAME = Buffer.concat([Buffer.from([0xff, 0xfb, 0x90, 0x00]), Buffer.alloc(413)])
const MP3_FRAMES_PER_SECOND = 44_100 / 1152

function mp3(seconds: number): Buffer[] {
  return secondsOf(seconds, MP3_FRAMES_PER_SECOND, MP3_FRAME)
}

const AAC_BYTES = 200
const AAC_FRAME = Buffer.concat([
  Buffer.from([
    0xff,
    0xf1,
    0x58,
    0x40 | (AAC_BYTES >> 11),
    (AAC_BYTES >> 3) & 0xff,
    ((AAC_BYTES & 7) << 5) | 0x1f,
    0xfc,
  ]),
  Buffer.alloc(AAC_BYTES - 7),
])

function aac(seconds: number): Buffer[] {
  return secondsOf(seconds, RATE / 1024, AAC_FRAME)
}

function secondsOf(seconds: number, framesPerSecond: number, frame: Buffer): Buffer[] {
  const frames = Math.floor(seconds * framesPerSecond)
  const each = Math.ceil(framesPerSecond)
  const second = Buffer.concat(Array.from({ length: each }, () => frame))
  return Array.from({ length: Math.ceil(frames / each) }, (_, at) =>
    at * each + each <= frames ? second : second.subarray(0, (frames - at * each) * frame.length),
  )
}

function pcm(seconds: number): Buffer[] {
  const second = Buffer.alloc(RATE * 2)
  const whole = Array.from({ length: Math.floor(seconds) }, () => second)
  const rest = Math.round((seconds % 1) * RATE) * 2
  return rest === 0 ? whole : [...whole, second.subarray(0, rest)]
}

/** The header of a mono WAV file. */
export function wavHead(rate: number, bits: 8 | 16, bytes: number): Buffer {
  const frame = bits / 8
  const head = Buffer.alloc(44)
  head.write('RIFF', 0)
  head.writeUInt32LE(36 + bytes, 4)
  head.write('WAVEfmt ', 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(rate, 24)
  head.writeUInt32LE(rate * frame, 28)
  head.writeUInt16LE(frame, 32)
  head.writeUInt16LE(bits, 34)
  head.write('data', 36)
  head.writeUInt32LE(bytes, 40)
  return head
}

function wav(seconds: number): Buffer[] {
  const pieces = pcm(seconds)
  const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0)
  return [wavHead(RATE, 16, bytes), ...pieces]
}

function oggPage(granule: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(28)
  head.write('OggS', 0)
  head.writeBigUInt64LE(BigInt(granule), 6)
  head.writeUInt8(1, 26)
  head.writeUInt8(payload.length, 27)
  return Buffer.concat([head, payload])
}

function opus(seconds: number): Buffer[] {
  const head = Buffer.alloc(19)
  head.write('OpusHead', 0)
  head.writeUInt8(1, 8)
  head.writeUInt8(1, 9)
  head.writeUInt32LE(48_000, 12)
  const pages = Array.from({ length: Math.ceil(seconds) }, (_, at) =>
    oggPage(Math.round(Math.min(at + 1, seconds) * 48_000), Buffer.alloc(200)),
  )
  return [oggPage(0, head), ...pages]
}

function flac(seconds: number): Buffer[] {
  const info = Buffer.alloc(42)
  info.write('fLaC', 0)
  info.writeUInt8(0x80, 4)
  info.writeUIntBE(34, 5, 3)
  const samples = Math.round(seconds * RATE)
  info.writeUIntBE((RATE << 4) | 0, 18, 3)
  info.writeUInt8(0xf0 | Math.floor(samples / 2 ** 32), 21)
  info.writeUInt32BE(samples % 2 ** 32, 22)
  return [info, ...Array.from({ length: Math.ceil(seconds) }, () => Buffer.alloc(1_000))]
}
