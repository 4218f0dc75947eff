import { wavHead } from '../../simulator/sound.ts'

/** A WAV of silence: 8 kHz, 8 bits, so a second has 8,000 bytes. */
export function wavFile(seconds: number): Buffer {
  const bytes = Math.round(seconds * 8_000)
  return Buffer.concat([wavHead(8_000, 8, bytes), Buffer.alloc(bytes, 0x80)])
}
