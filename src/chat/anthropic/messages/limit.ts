import { claudeGeneration } from '../../../models/generation.ts'
import type { EncodeOptions } from '../../hub/format.ts'
import type { ChatRequest } from '../../hub/hub.ts'
import type { Warnings } from '../../hub/warnings.ts'

/** The limit that Claude must be given: the client's as far as the model takes it, else as much as it may write. */
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

/** Sequences of blanks are refused. */
export function fitStops(
  stop: readonly string[] | undefined,
  warnings: Warnings,
): readonly string[] | undefined {
  const sequences = stop?.filter(each => each.trim() !== '')
  if (sequences?.length !== stop?.length) warnings.lost('stop', 'a stop sequence of whitespace was left out')
  return sequences
}
