import type { Sound } from './sound.ts'

const MAX_CHUNKS = 256
const FORMAT_BYTES = 40
const EXTENSIBLE = 0xfffe

/** Bits per sample by format number: PCM and floats declare it, the others are fixed. */
const BITS: Readonly<Record<number, 'declared' | number>> = {
  1: 'declared',
  3: 'declared',
  2: 4, // ADPCM of Microsoft and of the IMA
  17: 4,
  6: 8, // A-law and µ-law
  7: 8,
  49: 1.625, // GSM 6.10: 65 bytes for 320 samples
}

/** The bytes per second as decoders compute them: from rate, channels and bits, not from the declared byte rate. */
function bytesPerSecond(format: Buffer): number | undefined {
  if (format.length < 16) return undefined
  const formatTag = format.readUInt16LE(0)
  const tag = formatTag === EXTENSIBLE && format.length >= 26 ? format.readUInt16LE(24) : formatTag
  const kind = BITS[tag]
  if (kind === undefined) return undefined
  const bits = kind === 'declared' ? Math.ceil(format.readUInt16LE(14) / 8) * 8 : kind
  const bytes = (format.readUInt32LE(4) * format.readUInt16LE(2) * bits) / 8
  return bytes > 0 ? bytes : undefined
}

/**
 * The seconds of a WAV, by the bytes of its data. If no valid chunk follows the declared data, the declared size is
 * ignored and all remaining bytes count as audio.
 */
export async function wavSeconds(file: Sound): Promise<number | undefined> {
  let rate: number | undefined
  let sound = 0
  let at = 12
  for (let chunks = 0; chunks < MAX_CHUNKS && at + 8 <= file.size; chunks += 1) {
    const head = await file.read(at, 8)
    const id = head.toString('latin1', 0, 4)
    const size = head.length < 8 ? 0 : head.readUInt32LE(4)
    const start = at + 8
    if (!/^[\x20-\x7e]{4}$/.test(id)) break
    if (id === 'fmt ') rate ??= bytesPerSecond(await file.read(start, Math.min(size, FORMAT_BYTES)))
    // A recorder that does not know the size yet writes 0 or the maximum.
    const isOpen = id === 'data' && (size === 0 || start + size > file.size)
    const end = isOpen ? file.size : start + size
    if (id === 'data') sound += end - start
    // Chunks start at even offsets.
    at = end + (end % 2)
  }
  const rest = sound > 0 ? Math.max(0, file.size - at) : 0
  return rate === undefined || sound === 0 ? undefined : (sound + rest) / rate
}
