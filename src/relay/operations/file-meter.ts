import { soundKind } from '../../media/audio/kind.ts'
import { createSoundMeter, type SoundMeter } from '../../media/audio/sound-meter.ts'
import { emptyReading } from '../../metering/stream-meter.ts'
import type { StreamMeter } from './channel-request.ts'

/** Of sound whose length we cannot tell. */
const USUAL_BYTES_PER_SECOND = 16_000

/** No codec of speech has fewer: a header that makes more seconds of the bytes that were delivered is not believed. */
export const FEWEST_BYTES_PER_SECOND = 100

const READING = emptyReading()

/**
 * Meters a file of sound that passes through. Where its length is told, its last byte stays behind until the books are
 * written: a client would otherwise have all of it before. Where it is not, only the end of the answer says that it is whole.
 */
export function createFileMeter(askedType: string, length?: number): StreamMeter & { seconds(): number } {
  let last: Buffer | undefined
  let passedBytes = 0
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
      passedBytes += chunk.length
      if (passedBytes !== length) return [chunk]
      last = chunk.subarray(-1)
      return chunk.length === 1 ? [] : [chunk.subarray(0, -1)]
    },
    end() {
      isWhole = true
      return []
    },
    closing: () => (last ? [last] : []),
    ending: () => (isWhole && hasBegun ? 'complete' : 'incomplete'),
    seconds: () =>
      Math.min(
        sound?.seconds() || passedBytes / USUAL_BYTES_PER_SECOND,
        passedBytes / FEWEST_BYTES_PER_SECOND,
      ),
  }
}
