import type { StoredFile } from '../../wire/multipart.ts'
import { aacFrame, mpegFrame, type SoundKind, soundKind } from './kind.ts'
import { createSoundMeter, lastGranule, oggHead, tagLength } from './sound-meter.ts'

const HEAD_BYTES = 65_536
const TAIL_BYTES = 65_536
const SCAN_BYTES = 1_048_576
const MAX_BOXES = 1_000

type Sound = Pick<StoredFile, 'size' | 'read'>
type Measure = (file: Sound, head: Buffer) => Promise<number | undefined> | number | undefined

/** What a file is and how many seconds it lasts, by its own headers; undefined where they do not say. */
export async function measureSound(
  file: Sound,
): Promise<{ kind: SoundKind | undefined; seconds: number | undefined }> {
  const head = await file.read(0, HEAD_BYTES)
  const kind = soundKind(head)
  if (kind === undefined) return { kind, seconds: undefined }
  const seconds = await MEASURES[kind](file, head)
  return { kind, seconds: seconds !== undefined && seconds > 0 && seconds < 1e7 ? seconds : undefined }
}

const MEASURES: Readonly<Record<SoundKind, Measure>> = {
  wav: (file, head) => {
    const format = head.indexOf('fmt ')
    if (format < 0 || format + 20 > head.length) return undefined
    const bytesPerSecond = head.readUInt32LE(format + 16)
    const data = head.indexOf('data', format)
    const start = data < 0 ? head.length : data + 8
    const rest = Math.max(0, file.size - start)
    // A header that was written before the sound was known says nothing of its length; the file does.
    const told = data >= 0 && data + 8 <= head.length ? head.readUInt32LE(data + 4) : 0
    const bytes = told > 0 && told <= rest ? told : rest
    return bytesPerSecond === 0 ? undefined : bytes / bytesPerSecond
  },
  mp3: (file, head) => measureFrames(file, head, mpegFrame),
  aac: (file, head) => measureFrames(file, head, aacFrame),
  flac(_file, head) {
    if (head.length < 26) return undefined
    const rate = head.readUIntBE(18, 3) >> 4
    const samples = ((head[21] ?? 0) & 15) * 2 ** 32 + head.readUInt32BE(22)
    return rate === 0 || samples === 0 ? undefined : samples / rate
  },
  async ogg(file, head) {
    const start = oggHead(head)
    if (!start) return undefined
    const tail = await file.read(Math.max(0, file.size - TAIL_BYTES), TAIL_BYTES)
    const granule = Math.max(lastGranule(head), lastGranule(tail))
    return Math.max(0, granule - start.skip) / start.rate
  },
  mp4: file => measureMp4(file),
  webm: (file, head) => measureWebm(file, head),
  mpeg: () => undefined,
}

/** A list of frames in the first one counts them all; else the first megabyte stands for the rest. */
async function measureFrames(
  file: Sound,
  head: Buffer,
  frameAt: typeof mpegFrame,
): Promise<number | undefined> {
  const start = tagLength(head, 0)
  const bytes = await file.read(start, SCAN_BYTES)
  let first = 0
  while (first + 8 < bytes.length && frameAt(bytes, first) === undefined) first += 1
  const frame = frameAt(bytes, first)
  if (!frame) return undefined
  const listed = listedFrames(bytes.subarray(first, first + frame.bytes))
  if (listed !== undefined) return (listed * frame.samples) / frame.rate
  const meter = createSoundMeter(frameAt === aacFrame ? 'aac' : 'mp3')
  meter?.push(bytes.subarray(first))
  const scanned = bytes.length - first
  const seconds = meter?.seconds() ?? 0
  return scanned === 0 ? undefined : (seconds * (file.size - start - first)) / scanned
}

function listedFrames(frame: Buffer): number | undefined {
  const xing = Math.max(frame.indexOf('Xing'), frame.indexOf('Info'))
  if (xing >= 0 && xing + 12 <= frame.length && (frame.readUInt32BE(xing + 4) & 1) === 1)
    return frame.readUInt32BE(xing + 8)
  const vbri = frame.indexOf('VBRI')
  return vbri >= 0 && vbri + 18 <= frame.length ? frame.readUInt32BE(vbri + 14) : undefined
}

type Box = { readonly type: string; readonly start: number; readonly end: number }

/** The boxes that lie side by side in a part of an MP4 file. */
async function boxesIn(file: Sound, start: number, end: number): Promise<Box[]> {
  const boxes: Box[] = []
  for (let at = start; at + 8 <= end && boxes.length < MAX_BOXES; ) {
    const header = await file.read(at, 16)
    if (header.length < 8) break
    const short = header.readUInt32BE(0)
    const isLong = short === 1 && header.length === 16
    const size = isLong ? Number(header.readBigUInt64BE(8)) : short === 0 ? end - at : short
    if (size < 8) break
    boxes.push({
      type: header.toString('latin1', 4, 8),
      start: at + (isLong ? 16 : 8),
      end: Math.min(end, at + size),
    })
    at += size
  }
  return boxes
}

/** Version, times and scale lie in the same places of `mvhd` and `mdhd`. */
async function timeIn(file: Sound, { start }: Box): Promise<{ scale: number; duration: number } | undefined> {
  const bytes = await file.read(start, 32)
  if (bytes.length < 32) return undefined
  const isLong = bytes[0] === 1
  const scale = bytes.readUInt32BE(isLong ? 20 : 12)
  const duration = isLong ? Number(bytes.readBigUInt64BE(24)) : bytes.readUInt32BE(16)
  return scale === 0 ? undefined : { scale, duration: duration >= 0xffffffff ? 0 : duration }
}

async function measureMp4(file: Sound): Promise<number | undefined> {
  const outer = await boxesIn(file, 0, file.size)
  const moov = outer.find(({ type }) => type === 'moov')
  if (!moov) return undefined
  const inner = await boxesIn(file, moov.start, moov.end)
  const header = inner.find(({ type }) => type === 'mvhd')
  const time = header && (await timeIn(file, header))
  if (!time) return undefined
  if (time.duration > 0) return time.duration / time.scale
  // A file that was written in fragments tells its length beside them.
  const mvex = inner.find(({ type }) => type === 'mvex')
  const mehd = mvex && (await boxesIn(file, mvex.start, mvex.end)).find(({ type }) => type === 'mehd')
  if (!mehd) return undefined
  const bytes = await file.read(mehd.start, 12)
  if (bytes.length < 8) return undefined
  const isLong = bytes[0] === 1 && bytes.length === 12
  return (isLong ? Number(bytes.readBigUInt64BE(4)) : bytes.readUInt32BE(4)) / time.scale
}

const EBML = { info: 0x1549a966, scale: 0x2ad7b1, duration: 0x4489, cluster: 0x1f43b675, time: 0xe7 } as const
const NANOS = 1e9
const DEFAULT_SCALE = 1_000_000

/** The value of the first element of that id: an unsigned number, or a float. */
function elementIn(bytes: Buffer, id: number): Buffer | undefined {
  const idBytes = Buffer.from(id.toString(16).padStart(2, '0'), 'hex')
  const at = bytes.indexOf(idBytes)
  if (at < 0) return undefined
  const first = bytes[at + idBytes.length]
  if (first === undefined || first === 0) return undefined
  const width = Math.clz32(first) - 23
  const sizeAt = at + idBytes.length
  if (sizeAt + width > bytes.length) return undefined
  let size = first & (0xff >> width)
  for (let next = 1; next < width; next += 1) size = size * 256 + (bytes[sizeAt + next] ?? 0)
  return bytes.subarray(sizeAt + width, sizeAt + width + Math.min(size, 65_536))
}

const numberIn = (bytes: Buffer): number =>
  bytes.length > 0 && bytes.length <= 6 ? bytes.readUIntBE(0, bytes.length) : 0

async function measureWebm(file: Sound, head: Buffer): Promise<number | undefined> {
  const info = elementIn(head, EBML.info)
  if (!info) return undefined
  const scale = numberIn(elementIn(info, EBML.scale) ?? Buffer.alloc(0)) || DEFAULT_SCALE
  const duration = elementIn(info, EBML.duration)
  if (duration?.length === 4) return (duration.readFloatBE(0) * scale) / NANOS
  if (duration?.length === 8) return (duration.readDoubleBE(0) * scale) / NANOS
  return lastCluster(file, scale)
}

/** What a browser records tells no length; its last cluster tells when it begins, and none is longer than this. */
const CLUSTER_SECONDS = 5

async function lastCluster(file: Sound, scale: number): Promise<number | undefined> {
  const tail = await file.read(Math.max(0, file.size - SCAN_BYTES), SCAN_BYTES)
  const at = tail.lastIndexOf(Buffer.from(EBML.cluster.toString(16), 'hex'))
  const time = at < 0 ? undefined : elementIn(tail.subarray(at + 4, at + 32), EBML.time)
  return time && (numberIn(time) * scale) / NANOS + CLUSTER_SECONDS
}
