import type { StopReason } from '../../hub/hub.ts'

const REASONS: Readonly<Record<string, StopReason>> = {
  end_turn: 'stop',
  stop_sequence: 'sequence',
  max_tokens: 'length',
  model_context_window_exceeded: 'context',
  tool_use: 'tools',
  content_filtered: 'filter',
  guardrail_intervened: 'filter',
}

/** The model's output is malformed: there is no answer. */
export const isFailed = (vendorReason: unknown): boolean =>
  typeof vendorReason === 'string' && vendorReason.startsWith('malformed_')

export function decodeStop(vendorReason: unknown, hasCalls: boolean): StopReason {
  const reason = (typeof vendorReason === 'string' && REASONS[vendorReason]) || 'stop'
  return reason === 'stop' && hasCalls ? 'tools' : reason
}
