import { soundKind } from '../../formats/audio/kind.ts'
import { createSoundMeter, type SoundMeter } from '../../formats/audio/sound-meter.ts'
import type { StreamMeter } from './operation.ts'

const READING: StreamMeter['reading'] = {
  usage: undefined,
  events: 0,
  contentEvents: 0,
  textBytes: 0,
  reasoningBytes: 0,
  finishes: 0,
  isDone: false,
  error: undefined,
  malformed: 0,
}

/**
 * Meters a file of sound that passes through. Its last byte stays behind until the books are written: a client that knows
 * the length would otherwise have all of it before.
 */
export function createFileMeter(askedType: string): StreamMeter & { seconds(): number } {
  let last: Buffer | undefined
  let sound: SoundMeter | undefined
  let hasBegun = false
  let isWhole = false
  return {
    reading: READING,
    push(chunk) {
      if (chunk.length === 0) return []
      // What it is, its first bytes tell better than whoever asked for it.
      if (!hasBegun) sound = createSoundMeter(soundKind(chunk) ?? askedType)
      hasBegun = true
      sound?.push(chunk)
      const out = [...(last ? [last] : []), chunk.subarray(0, -1)]
      last = chunk.subarray(-1)
      return out.filter(bytes => bytes.length > 0)
    },
    end() {
      isWhole = true
      return []
    },
    closing: () => (last ? [last] : []),
    ending: () => (isWhole && hasBegun ? 'complete' : 'incomplete'),
    seconds: () => sound?.seconds() ?? 0,
  }
}
