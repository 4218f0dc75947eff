import { isObject, type JsonObject } from '../../domain/json-value.ts'
import { compact, type FieldReader } from '../hub/fields.ts'
import type { Stop, StopReason } from '../hub/hub.ts'
import { FORMAT } from './content.ts'

const REASONS: Readonly<Record<string, StopReason>> = {
  STOP: 'stop',
  MAX_TOKENS: 'length',
  SAFETY: 'filter',
  RECITATION: 'filter',
  LANGUAGE: 'filter',
  BLOCKLIST: 'filter',
  PROHIBITED_CONTENT: 'filter',
  SPII: 'filter',
  IMAGE_SAFETY: 'filter',
  IMAGE_PROHIBITED_CONTENT: 'filter',
  IMAGE_RECITATION: 'filter',
}

const FINISH_REASONS = {
  stop: 'STOP',
  sequence: 'STOP',
  length: 'MAX_TOKENS',
  context: 'MAX_TOKENS',
  tools: 'STOP',
  filter: 'SAFETY',
  pause: 'STOP',
} as const satisfies Record<StopReason, string>

/** The model's tool call cannot be used, so there is no answer. */
export const FAILED: ReadonlySet<unknown> = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
])

/** Reads the end of a candidate, after all its other fields. Fields that only this vendor has become extras. */
export function decodeStop(candidate: FieldReader, hasCalls: boolean): Stop {
  const vendorReason = candidate.text('finishReason')
  const reason = (vendorReason !== undefined && REASONS[vendorReason]) || 'stop'
  const isFiltered = reason === 'filter'
  const explanation = isFiltered ? candidate.text('finishMessage') : undefined
  const isCommon = vendorReason === undefined || FINISH_REASONS[reason] === vendorReason
  const own = { ...candidate.rest(), ...(!isCommon && { finishReason: vendorReason }) }
  return compact<Stop>({
    reason: reason === 'stop' && hasCalls ? 'tools' : reason,
    explanation,
    extras: Object.keys(own).length === 0 ? undefined : { [FORMAT]: own },
  })
}

/** A blocked prompt has no candidates at all. */
export function blockedStop(feedback: unknown): Stop | undefined {
  if (!isObject(feedback) || typeof feedback.blockReason !== 'string') return undefined
  const { blockReason, blockReasonMessage } = feedback
  return {
    reason: 'filter',
    explanation: typeof blockReasonMessage === 'string' ? blockReasonMessage : blockReason,
    extras: { [FORMAT]: { promptFeedback: feedback } },
  }
}

/** The fields that end a candidate. */
export function encodeStop({ reason, explanation, extras }: Stop): JsonObject {
  return {
    finishReason: FINISH_REASONS[reason],
    ...(explanation !== undefined && { finishMessage: explanation }),
    ...extras?.[FORMAT],
  }
}
