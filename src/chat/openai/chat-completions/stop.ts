import type { StopReason } from '../../hub/hub.ts'

/** The words of this format and of its hosts (docs/reference/formats.md: Finish reasons). Any other word is a plain stop. */
const REASONS: Readonly<Record<string, StopReason>> = {
  stop: 'stop',
  eos: 'stop',
  length: 'length',
  model_length: 'context',
  tool_calls: 'tools',
  function_call: 'tools',
  content_filter: 'filter',
}

/** Hosts that end for a fault of theirs say so here. */
export const FAILED = new Set(['error', 'insufficient_system_resource'])

/** That tools were called is told by the calls: several hosts say `stop` all the same. */
export function decodeStop(word: string, hasCalls: boolean): StopReason {
  const reason = REASONS[word] ?? 'stop'
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

/** `isFirstForm`: the client knows calls of functions only. */
export const finishReason = (reason: StopReason, isFirstForm: boolean): string =>
  reason === 'tools' && isFirstForm ? 'function_call' : FINISH_REASONS[reason]
