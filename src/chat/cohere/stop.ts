import type { StopReason } from '../hub/hub.ts'

const REASONS: Readonly<Record<string, StopReason>> = {
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'sequence',
  MAX_TOKENS: 'length',
  TOOL_CALL: 'tools',
}

/** Finish reasons of a missing or partial answer. */
const FAILED: ReadonlySet<unknown> = new Set(['ERROR', 'TIMEOUT', 'ERROR_TOXIC', 'ERROR_LIMIT'])

export const isFailed = (word: unknown): boolean => FAILED.has(word)

export function decodeStop(word: unknown, hasCalls: boolean): StopReason {
  const reason = (typeof word === 'string' && REASONS[word]) || 'stop'
  return reason === 'stop' && hasCalls ? 'tools' : reason
}
