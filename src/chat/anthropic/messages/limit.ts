import { claudeGeneration } from '../../../models/generation.ts'
import type { EncodeOptions } from '../../hub/format.ts'
import type { ChatRequest } from '../../hub/hub.ts'
import type { Warnings } from '../../hub/warnings.ts'

/** The required output limit: the client's, reduced to the model's maximum; without one, the model's maximum. */
export function fitLimit(
  { model, maxTokens }: ChatRequest,
  { maxOutputTokens }: EncodeOptions,
  warnings: Warnings,
): number {
  const generation = claudeGeneration(model)
  if (maxTokens === undefined) return maxOutputTokens ?? generation.defaultOutputTokens
  const allowed = Math.min(maxTokens, generation.maxOutputTokens ?? maxTokens)
  if (allowed < maxTokens) warnings.lost('max_tokens', `was lowered to ${allowed}, the maximum of the model`)
  return allowed
}

/** The vendor rejects stop sequences of whitespace only. */
export function fitStops(
  stop: readonly string[] | undefined,
  warnings: Warnings,
): readonly string[] | undefined {
  const sequences = stop?.filter(each => each.trim() !== '')
  if (sequences?.length !== stop?.length) warnings.lost('stop', 'a stop sequence of whitespace was left out')
  return sequences
}
