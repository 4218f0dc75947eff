import { soundKind } from '../../media/audio/kind.ts'
import { createSoundMeter, type SoundMeter } from '../../media/audio/sound-meter.ts'
import { emptyReading } from '../../metering/stream-meter.ts'
import type { StreamMeter } from './channel-request.ts'

/** The assumed rate of audio whose length cannot be measured. */
const USUAL_BYTES_PER_SECOND = 16_000

/** No speech codec needs fewer. A header that claims more seconds than that for the delivered bytes is ignored. */
export const FEWEST_BYTES_PER_SECOND = 100

const READING = emptyReading()

/**
 * Meters an audio file that is forwarded. If its length is known, the last byte is held back until the request is
 * settled: otherwise the client would have the complete file before that. If not, only the end of the response marks it
 * as complete.
 */
export function createFileMeter(askedType: string, length?: number): StreamMeter & { seconds(): number } {
  let last: Buffer | undefined
  let passedBytes = 0
  let sound: SoundMeter | undefined
  let hasBegun = false
  let isWhole = false
  return {
    reading: READING,
    keepsNothing: true,
    isFile: true,
    push(chunk) {
      if (chunk.length === 0) return []
      // The first bytes are more reliable than the requested type.
      if (!hasBegun) sound = createSoundMeter(soundKind(chunk) ?? askedType)
      hasBegun = true
      sound?.push(chunk)
      passedBytes += chunk.length
      if (passedBytes !== length) return [chunk]
      last = Buffer.from(chunk.subarray(-1))
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
