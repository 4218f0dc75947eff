import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { compact } from '../../hub/fields.ts'
import type { Stop, StopReason } from '../../hub/hub.ts'
import { FORMAT } from './content.ts'

const REASONS: Readonly<Record<string, StopReason>> = {
  end_turn: 'stop',
  stop_sequence: 'sequence',
  max_tokens: 'length',
  model_context_window_exceeded: 'context',
  tool_use: 'tools',
  refusal: 'filter',
  pause_turn: 'pause',
}

const STOP_REASONS = {
  stop: 'end_turn',
  sequence: 'stop_sequence',
  length: 'max_tokens',
  context: 'model_context_window_exceeded',
  tools: 'tool_use',
  filter: 'refusal',
  pause: 'pause_turn',
} as const satisfies Record<StopReason, string>

/** `message`: a non-stream answer, or the `delta` at the end of a stream. */
export function decodeStop(message: unknown, hasCalls: boolean): Stop {
  const vendorReason = member(message, 'stop_reason')
  const reason = (typeof vendorReason === 'string' && REASONS[vendorReason]) || 'stop'
  const sequence = member(message, 'stop_sequence')
  const details = member(message, 'stop_details')
  const explanation = member(details, 'explanation')
  return compact<Stop>({
    reason: reason === 'stop' && hasCalls ? 'tools' : reason,
    sequence: typeof sequence === 'string' ? sequence : undefined,
    explanation: typeof explanation === 'string' ? explanation : undefined,
    extras: isObject(details) ? { [FORMAT]: details } : undefined,
  })
}

export function encodeStop({ reason, sequence, explanation, extras }: Stop): JsonObject {
  const own = extras?.[FORMAT]
  const stopDetails = explanation === undefined ? null : { type: 'refusal', category: null, explanation }
  return {
    stop_reason: STOP_REASONS[reason],
    stop_sequence: sequence ?? null,
    stop_details: own ?? stopDetails,
  }
}
