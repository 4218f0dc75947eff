import { Refusal } from '../domain/errors.ts'
import type { AttemptOutcome } from '../routing/health.ts'
import type { Delivery } from './answer/deliver.ts'
import type { StreamMeter } from './operations/channel-request.ts'

/** Why a stream is not a complete answer; undefined: it is complete, or its client disconnected. */
export function streamFault(delivery: Delivery, meter: Pick<StreamMeter, 'ending'>): Refusal | undefined {
  if (delivery.ending === 'disconnected') return undefined
  if (delivery.ending === 'stopped')
    return new Refusal('insufficient_quota', 'The quota was used up during the response.')
  if (meter.ending() === 'error')
    return new Refusal('upstream_error', 'The provider reported an error during the response.')
  if (meter.ending() === 'complete') return undefined
  if (delivery.ending === 'cut' && delivery.failure.reason === 'timeout')
    return new Refusal('upstream_timeout', 'The provider timed out during the response.')
  return new Refusal('upstream_error', 'The provider closed the connection before the response was complete.')
}

/** The outcome of a stream for the health of its channel. */
export function streamHealth({ ending }: Delivery, fault: Refusal | undefined): AttemptOutcome {
  if (ending === 'disconnected' || ending === 'stopped') return { kind: 'client' }
  return fault === undefined ? { kind: 'ok' } : { kind: '5xx', detail: fault.message }
}
