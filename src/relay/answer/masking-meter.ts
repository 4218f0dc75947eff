import { maskBytes } from '../catalog/channel-secrets.ts'
import type { StreamMeter } from '../operations/channel-request.ts'

/** A meter whose pieces have secrets masked; a secret that is cut between two pieces is not known as one. */
export function maskingMeter(meter: StreamMeter, needles: readonly Buffer[]): StreamMeter {
  if (needles.length === 0) return meter
  const masked = (pieces: readonly Buffer[]) => pieces.map(piece => maskBytes(piece, needles))
  return {
    ...meter,
    push: chunk => masked(meter.push(chunk)),
    end: () => masked(meter.end()),
    closing: usage => masked(meter.closing(usage)),
  }
}
