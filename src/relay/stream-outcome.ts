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
  if (isLocal(delivery)) return new Refusal('internal_error', 'The gateway failed during the response.')
  if (delivery.ending === 'cut' && delivery.failure.reason === 'timeout')
    return new Refusal('upstream_timeout', 'The provider timed out during the response.')
  return new Refusal('upstream_error', 'The provider closed the connection before the response was complete.')
}

/** The outcome of a stream for the health of its channel. */
export function streamHealth(delivery: Delivery, fault: Refusal | undefined): AttemptOutcome {
  const { ending } = delivery
  if (ending === 'disconnected' || ending === 'stopped') return { kind: 'client' }
  if (fault === undefined) return { kind: 'ok' }
  return isLocal(delivery) ? { kind: 'client' } : { kind: '5xx', detail: fault.message }
}

/** The gateway failed, not the provider. */
const isLocal = (delivery: Delivery): boolean =>
  delivery.ending === 'cut' && delivery.failure.reason === 'local'
