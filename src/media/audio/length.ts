import { aacFrame, mpegFrame, type SoundKind, soundKind } from './kind.ts'
import { mp4Seconds } from './mp4.ts'
import { oggSeconds } from './ogg.ts'
import { piecesOf, type Sound } from './sound.ts'
import { createFrameMeter, createSoundMeter, lastGranule, oggHead, tagLength } from './sound-meter.ts'
import { wavSeconds } from './wav.ts'
import { webmSeconds } from './webm.ts'

const HEAD_BYTES = 65_536
const TAIL_BYTES = 65_536
const SEARCH_BYTES = 1_048_576
const MAX_SECONDS = 1e7

type Measure = (file: Sound, head: Buffer) => Promise<number | undefined>

/**
 * The kind of a file and its duration in seconds; undefined: unknown. Headers cannot be trusted, because an uploader
 * gains by a short one: if the audio lasts longer than its header states, the audio counts.
 */
export async function measureSound(
  file: Sound,
): Promise<{ kind: SoundKind | undefined; seconds: number | undefined }> {
  const head = await file.read(0, HEAD_BYTES)
  const kind = soundKind(head)
  if (kind === undefined) return { kind, seconds: undefined }
  const seconds = await MEASURES[kind](file, head)
  return {
    kind,
    seconds: seconds !== undefined && seconds > 0 && seconds < MAX_SECONDS ? seconds : undefined,
  }
}

/** The maximum bytes per second of these kinds. */
const MOST_BYTES_PER_SECOND = { mp3: 56_000, aac: 144_000, ogg: 128_000 } as const

const MEASURES: Readonly<Record<SoundKind, Measure>> = {
  wav: wavSeconds,
  mp3: (file, head) => measureFrames(file, head, 'mp3'),
  aac: (file, head) => measureFrames(file, head, 'aac'),
  async flac(file, head) {
    if (head.length < 26) return undefined
    const rate = head.readUIntBE(18, 3) >> 4
    const samples = ((head[21] ?? 0) & 15) * 2 ** 32 + head.readUInt32BE(22)
    const meter = createSoundMeter('flac')
    for await (const piece of piecesOf(file)) meter?.push(piece)
    return Math.max(rate === 0 ? 0 : samples / rate, meter?.seconds() ?? 0)
  },
  async ogg(file, head) {
    const start = oggHead(head)
    if (!start) return undefined
    const tail = await file.read(Math.max(0, file.size - TAIL_BYTES), TAIL_BYTES)
    const granule = Math.max(lastGranule(head), lastGranule(tail))
    const statedSeconds = Math.max(0, granule - start.skip) / start.rate
    const packetSeconds = await oggSeconds(file)
    // Short Vorbis blocks last less than assumed, so a stated position above half of the measured time is plausible.
    const isPlausible = start.isVorbis && statedSeconds > packetSeconds / 2
    return Math.max(statedSeconds, isPlausible ? 0 : packetSeconds, file.size / MOST_BYTES_PER_SECOND.ogg)
  },
  mp4: mp4Seconds,
  webm: webmSeconds,
  mpeg: async () => undefined,
}

/** Frames of MPEG audio or AAC: all are counted. If the first frame lists more of them, that list counts. */
async function measureFrames(file: Sound, head: Buffer, kind: 'mp3' | 'aac'): Promise<number | undefined> {
  const frameAt = kind === 'aac' ? aacFrame : mpegFrame
  const tag = tagLength(head, 0)
  const start = tag < file.size ? tag : 0
  const bytes = await file.read(start, SEARCH_BYTES)
  let first = 0
  while (first + 8 < bytes.length && frameAt(bytes, first) === undefined) first += 1
  const frame = frameAt(bytes, first)
  if (!frame) return undefined
  const listed = listedFrames(bytes.subarray(first, first + frame.bytes)) ?? 0
  const meter = createFrameMeter(kind)
  for await (const piece of piecesOf(file, start + first)) meter.push(piece)
  const least = (file.size - start - first) / MOST_BYTES_PER_SECOND[kind]
  return Math.max((listed * frame.samples) / frame.rate, meter.seconds(), least)
}

function listedFrames(frame: Buffer): number | undefined {
  const xing = Math.max(frame.indexOf('Xing'), frame.indexOf('Info'))
  if (xing >= 0 && xing + 12 <= frame.length && (frame.readUInt32BE(xing + 4) & 1) === 1)
    return frame.readUInt32BE(xing + 8)
  const vbri = frame.indexOf('VBRI')
  return vbri >= 0 && vbri + 18 <= frame.length ? frame.readUInt32BE(vbri + 14) : undefined
}
