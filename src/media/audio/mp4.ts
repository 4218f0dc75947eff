import { AAC_RATES } from './kind.ts'
import type { Sound } from './sound.ts'

const MAX_BOXES = 20_000

type Box = { readonly type: string; readonly start: number; readonly end: number }

/** The sibling boxes in a section of an MP4 file. */
async function* boxesIn(file: Sound, start: number, end: number): AsyncGenerator<Box> {
  let at = start
  for (let count = 0; at + 8 <= end && count < MAX_BOXES; count += 1) {
    const header = await file.read(at, 16)
    if (header.length < 8) return
    const short = header.readUInt32BE(0)
    const isLong = short === 1 && header.length === 16
    const size = isLong ? Number(header.readBigUInt64BE(8)) : short === 0 ? end - at : short
    if (size < 8) return
    yield {
      type: header.toString('latin1', 4, 8),
      start: at + (isLong ? 16 : 8),
      end: Math.min(end, at + size),
    }
    at += size
  }
}

async function boxAt(file: Sound, outer: Box, ...path: readonly string[]): Promise<Box | undefined> {
  const [type, ...rest] = path
  if (type === undefined) return outer
  for await (const box of boxesIn(file, outer.start, outer.end))
    if (box.type === type) return boxAt(file, box, ...rest)
  return undefined
}

const numberAt = async (file: Sound, at: number): Promise<number> => {
  const bytes = await file.read(at, 4)
  return bytes.length < 4 ? 0 : bytes.readUInt32BE(0)
}

/** `mvhd` and `mdhd` have version, times and scale at the same offsets. */
async function timeIn(file: Sound, { start }: Box): Promise<{ scale: number; duration: number } | undefined> {
  const bytes = await file.read(start, 32)
  if (bytes.length < 32) return undefined
  const isLong = bytes[0] === 1
  const scale = bytes.readUInt32BE(isLong ? 20 : 12)
  const duration = isLong ? Number(bytes.readBigUInt64BE(24)) : bytes.readUInt32BE(16)
  return scale === 0 ? undefined : { scale, duration: duration >= 0xffffffff ? 0 : duration }
}

async function statedSeconds(file: Sound, moov: Box): Promise<number> {
  const header = await boxAt(file, moov, 'mvhd')
  const time = header && (await timeIn(file, header))
  if (!time) return 0
  // A fragmented file states its length separately.
  const mehd = await boxAt(file, moov, 'mvex', 'mehd')
  const bytes = mehd ? await file.read(mehd.start, 12) : Buffer.alloc(0)
  const isLong = bytes[0] === 1 && bytes.length === 12
  const inFragments = bytes.length < 8 ? 0 : isLong ? Number(bytes.readBigUInt64BE(4)) : bytes.readUInt32BE(4)
  return Math.max(time.duration, inFragments) / time.scale
}

/** Audio samples per MP4 sample, by codec name. */
const SAMPLES: Readonly<Record<string, number>> = {
  mp4a: 1_024,
  alac: 4_096,
  Opus: 960,
  samr: 160,
  sawb: 320,
  '.mp3': 1_152,
}

const ENTRY_BYTES = 36
const MAX_DESCRIPTION = 4_096
const CONFIG_TAG = 5

/** The sample rate that AAC decoders use: that of the codec configuration, not that of the sample entry. */
function configuredRate(description: Buffer): number | undefined {
  const esds = description.indexOf('esds')
  if (esds < 0) return undefined
  // Skips the version, a descriptor with three bytes of its own, and one with thirteen, which contains the configuration.
  let at = esds + 8
  for (const own of [3, 13]) at = descriptorStart(description, at) + own
  if (description[at] !== CONFIG_TAG) return undefined
  const start = descriptorStart(description, at)
  const config = start + 2 <= description.length ? description.readUInt16BE(start) : 0
  return AAC_RATES[(config >> 7) & 15]
}

/** The offset of a descriptor's content: its length takes one byte per seven bits. */
function descriptorStart(bytes: Buffer, at: number): number {
  let next = at + 1
  while (((bytes[next] ?? 0) & 0x80) !== 0) next += 1
  return next + 1
}

/** The duration of one sample of a track in seconds; undefined if the track is not known audio. */
async function sampleSeconds(file: Sound, trak: Box): Promise<number | undefined> {
  const stsd = await boxAt(file, trak, 'mdia', 'minf', 'stbl', 'stsd')
  if (!stsd) return undefined
  const entry = await file.read(stsd.start + 8, Math.min(stsd.end - stsd.start, MAX_DESCRIPTION))
  if (entry.length < ENTRY_BYTES) return undefined
  const codec = entry.toString('latin1', 4, 8)
  const samples = SAMPLES[codec]
  const rate = (codec === 'mp4a' ? configuredRate(entry) : undefined) ?? entry.readUInt16BE(32)
  return samples === undefined || rate === 0 ? undefined : samples / rate
}

/** The samples in the fragments of a file, by track id. */
async function fragmentSamples(file: Sound): Promise<ReadonlyMap<number, number>> {
  const samples = new Map<number, number>()
  for await (const moof of boxesIn(file, 0, file.size)) {
    if (moof.type !== 'moof') continue
    for await (const traf of boxesIn(file, moof.start, moof.end)) {
      if (traf.type !== 'traf') continue
      let track = 0
      for await (const box of boxesIn(file, traf.start, traf.end)) {
        if (box.type === 'tfhd') track = await numberAt(file, box.start + 4)
        if (box.type === 'trun')
          samples.set(track, (samples.get(track) ?? 0) + (await numberAt(file, box.start + 4)))
      }
    }
  }
  return samples
}

async function trackId(file: Sound, trak: Box): Promise<number> {
  const tkhd = await boxAt(file, trak, 'tkhd')
  if (!tkhd) return 0
  const [version = 0] = await file.read(tkhd.start, 1)
  return numberAt(file, tkhd.start + (version === 1 ? 20 : 12))
}

/** The seconds of an MP4: the maximum of its header and of the samples of each audio track. */
export async function mp4Seconds(file: Sound): Promise<number | undefined> {
  const moov = await boxAt(file, { type: '', start: 0, end: file.size }, 'moov')
  if (!moov) return undefined
  let longest = await statedSeconds(file, moov)
  const fragments = (await boxAt(file, moov, 'mvex')) ? await fragmentSamples(file) : undefined
  for await (const trak of boxesIn(file, moov.start, moov.end)) {
    if (trak.type !== 'trak') continue
    const each = await sampleSeconds(file, trak)
    if (each === undefined) continue
    const stsz = await boxAt(file, trak, 'mdia', 'minf', 'stbl', 'stsz')
    const samples = stsz ? await numberAt(file, stsz.start + 8) : 0
    const inFragments = fragments?.get(await trackId(file, trak)) ?? 0
    longest = Math.max(longest, (samples + inFragments) * each)
  }
  return longest
}
