import { delegate } from '../../metering/stream-meter.ts'
import type { StreamMeter } from '../operations/channel-request.ts'
import type { BodyCapture } from './capture.ts'

/** A meter that also copies the bytes for the client to the capture. */
export function capturingMeter(meter: StreamMeter, capture: BodyCapture): StreamMeter {
  const copied = (pieces: readonly Buffer[]) => {
    for (const piece of pieces) capture.answer(piece)
    return pieces
  }
  const { endWithError } = meter
  return {
    ...delegate(meter),
    push: chunk => copied(meter.push(chunk)),
    end: () => copied(meter.end()),
    closing: usage => copied(meter.closing(usage)),
    ...(endWithError && { endWithError: error => copied(endWithError(error)) }),
  }
}
