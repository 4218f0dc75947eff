import { delegate } from '../../metering/stream-meter.ts'
import { maskBytes } from '../catalog/channel-secrets.ts'
import type { StreamMeter } from '../operations/channel-request.ts'

/** A meter that masks secrets in each chunk. It does not recognize a secret that is split between two chunks. */
export function maskingMeter(meter: StreamMeter, needles: readonly Buffer[]): StreamMeter {
  if (needles.length === 0) return meter
  const masked = (pieces: readonly Buffer[]) => pieces.map(piece => maskBytes(piece, needles))
  return {
    ...delegate(meter),
    push: chunk => masked(meter.push(chunk)),
    end: () => masked(meter.end()),
    closing: usage => masked(meter.closing(usage)),
  }
}
