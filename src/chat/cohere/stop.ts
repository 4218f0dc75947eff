import type { StopReason } from '../hub/hub.ts'

const REASONS: Readonly<Record<string, StopReason>> = {
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'sequence',
  MAX_TOKENS: 'length',
  TOOL_CALL: 'tools',
}

/** Finish reasons of a missing or partial answer. */
const FAILED: ReadonlySet<unknown> = new Set(['ERROR', 'TIMEOUT', 'ERROR_TOXIC', 'ERROR_LIMIT'])

export const isFailed = (vendorReason: unknown): boolean => FAILED.has(vendorReason)

export function decodeStop(vendorReason: unknown, hasCalls: boolean): StopReason {
  const reason = (typeof vendorReason === 'string' && REASONS[vendorReason]) || 'stop'
  return reason === 'stop' && hasCalls ? 'tools' : reason
}
