import type { StopReason } from '../../hub/hub.ts'

/**
 * The finish reasons of this format and of its hosts (docs/reference/formats.md: Finish reasons). Any other value is a
 * plain stop.
 */
const REASONS: Readonly<Record<string, StopReason>> = {
  stop: 'stop',
  eos: 'stop',
  length: 'length',
  model_length: 'context',
  tool_calls: 'tools',
  function_call: 'tools',
  content_filter: 'filter',
}

/** Finish reasons of a failure on the host's side. */
export const FAILED = new Set(['error', 'insufficient_system_resource'])

/** The calls decide whether tools were called: several hosts report `stop` nevertheless. */
export function decodeStop(vendorReason: string, hasCalls: boolean): StopReason {
  const reason = REASONS[vendorReason] ?? 'stop'
  return hasCalls && reason === 'stop' ? 'tools' : reason
}

const FINISH_REASONS = {
  stop: 'stop',
  sequence: 'stop',
  length: 'length',
  context: 'length',
  tools: 'tool_calls',
  filter: 'content_filter',
  pause: 'stop',
} as const satisfies Record<StopReason, string>

/** `isFirstForm`: the client uses the deprecated `functions`. */
export const finishReason = (reason: StopReason, isFirstForm: boolean): string =>
  reason === 'tools' && isFirstForm ? 'function_call' : FINISH_REASONS[reason]
