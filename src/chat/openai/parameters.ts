import { openAiGeneration } from '../../models/generation.ts'
import type { ChatRequest } from '../hub/hub.ts'
import { effortOf } from '../hub/reasoning.ts'
import type { Warnings } from '../hub/warnings.ts'

/** Whether the model reasons; unknown models may. */
export const canThink = (model: string): boolean => openAiGeneration(model)?.efforts?.length !== 0

const ORDER = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
/** Every reasoning model accepts this effort; higher ones were added later. */
const STRONGEST_EVERYWHERE = 'high'

/** The reasoning effort to send, one that the model accepts. */
export function fitEffort({ reasoning, model }: ChatRequest, warnings: Warnings): string | undefined {
  const { effort, budget } = reasoning ?? {}
  const requested = effort ?? (budget === undefined ? undefined : commonEffort(budget))
  if (requested === undefined) return undefined
  const effortName = acceptedEffort(requested, openAiGeneration(model)?.efforts)
  if (effortName === undefined) {
    if (requested !== 'none') warnings.lost('reasoning', 'the model does not support reasoning')
    return undefined
  }
  if (effort === undefined) {
    warnings.lost('reasoning.budget', `a budget of ${budget} tokens is sent as the effort ${effortName}`)
  } else if (effortName !== effort) {
    warnings.lost('reasoning_effort', `the model does not accept ${effort}: ${effortName} is sent instead`)
  }
  return effortName
}

function commonEffort(budget: number): string {
  const effort = effortOf(budget)
  return ORDER.indexOf(effort) > ORDER.indexOf(STRONGEST_EVERYWHERE) ? STRONGEST_EVERYWHERE : effort
}

/** The requested effort, else the highest lower one, else the lowest. An unknown effort is sent unchanged. */
function acceptedEffort(requested: string, accepted: readonly string[] | undefined): string | undefined {
  if (accepted === undefined || accepted.includes(requested)) return requested
  if (accepted.length > 0 && !ORDER.includes(requested)) return requested
  return accepted.findLast(word => ORDER.indexOf(word) < ORDER.indexOf(requested)) ?? accepted[0]
}

const SAMPLING = {
  temperature: 'temperature',
  topP: 'top_p',
  presencePenalty: 'presence_penalty',
  frequencyPenalty: 'frequency_penalty',
  logprobs: 'logprobs',
} as const satisfies Partial<Record<keyof ChatRequest, string>>

/** The vendor's defaults, which every model accepts. */
const DEFAULTS: Partial<Record<keyof ChatRequest, number>> = {
  temperature: 1,
  topP: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
}

/** Removes the sampling parameters that a reasoning model rejects. */
export function fitSampling(
  request: ChatRequest,
  effort: string | undefined,
  warnings: Warnings,
): ChatRequest {
  const sampling = openAiGeneration(request.model)?.sampling
  // Models whose reasoning can be turned off do not reason by default.
  const isIdle = effort === undefined || effort === 'none'
  if (sampling === undefined || sampling === 'always' || (sampling === 'withoutReasoning' && isIdle))
    return request
  const { temperature, topP, presencePenalty, frequencyPenalty, logprobs, ...rest } = request
  for (const [field, name] of Object.entries(SAMPLING) as [keyof typeof SAMPLING, string][]) {
    const value = request[field]
    if (value !== undefined && value !== DEFAULTS[field])
      warnings.lost(name, 'is not accepted by a reasoning model and was left out')
  }
  if (sampling === 'never' && rest.stop !== undefined && rest.stop.length > 0) {
    warnings.lost('stop', 'is not accepted by this model and was left out')
    const { stop, ...unstopped } = rest
    return unstopped
  }
  return rest
}

const MAX_STOPS = 4

/** Reduces the limits of a request to those of the model: clients of other vendors' models may request more. */
export function fitLimits(request: ChatRequest, warnings: Warnings): ChatRequest {
  const { model, maxTokens, stop } = request
  const { maxOutputTokens: most, sampling } = openAiGeneration(model) ?? {}
  const isTooLong = most !== undefined && maxTokens !== undefined && maxTokens > most
  const isTooMany = sampling !== undefined && stop !== undefined && stop.length > MAX_STOPS
  if (isTooLong) warnings.lost('max_tokens', `was lowered to ${most}, the maximum of the model`)
  if (isTooMany) warnings.lost('stop', `only the first ${MAX_STOPS} sequences are sent`)
  if (!isTooLong && !isTooMany) return request
  return {
    ...request,
    ...(isTooLong && { maxTokens: most }),
    ...(isTooMany && { stop: stop.slice(0, MAX_STOPS) }),
  }
}
