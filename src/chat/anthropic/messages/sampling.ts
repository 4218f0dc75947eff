import { claudeGeneration } from '../../../models/generation.ts'
import type { ChatRequest } from '../../hub/hub.ts'
import type { Warnings } from '../../hub/warnings.ts'

export type Sampling = {
  readonly temperature?: number | undefined
  readonly topP?: number | undefined
  readonly topK?: number | undefined
}

/** The minimum `top_p` that the vendor accepts with thinking. */
const MIN_TOP_P_THINKING = 0.95

/** The sampling parameters for Claude on any host, without those that the vendor would refuse. */
export function fitSampling(request: ChatRequest, isThinking: boolean, warnings: Warnings): Sampling {
  const { model, temperature, topP, topK } = request
  if (claudeGeneration(model).sampling === 'never') return withoutSampling(request, warnings)
  if (isThinking) return fitThinking(request, warnings)
  if (temperature !== undefined && temperature > 1)
    warnings.lost('temperature', 'was lowered to 1, the maximum')
  return { ...fitPair(model, temperature && Math.min(temperature, 1), topP, warnings), topK }
}

/** The vendor's default has no effect, so it can be left out without a warning. */
const isNonDefault = (value: number | undefined): value is number => value !== undefined && value !== 1

function withoutSampling({ temperature, topP, topK }: ChatRequest, warnings: Warnings): Sampling {
  const parameters = [
    isNonDefault(temperature) && 'temperature',
    isNonDefault(topP) && 'top_p',
    topK !== undefined && 'top_k',
  ]
  for (const name of parameters)
    if (name) warnings.lost(name, 'is not accepted by the model and was left out')
  return {}
}

function fitThinking({ model, temperature, topP, topK }: ChatRequest, warnings: Warnings): Sampling {
  if (isNonDefault(temperature)) {
    warnings.lost('temperature', 'is not accepted while thinking is on and was left out')
  }
  if (topK !== undefined) warnings.lost('top_k', 'is not accepted while thinking is on and was left out')
  const isNarrow = topP !== undefined && topP < MIN_TOP_P_THINKING
  if (isNarrow)
    warnings.lost('top_p', `cannot be below ${MIN_TOP_P_THINKING} while thinking is on and was left out`)
  return fitPair(model, temperature === 1 ? 1 : undefined, isNarrow ? undefined : topP, warnings)
}

/** If the vendor accepts only one of the two, a default value is dropped first. */
function fitPair(
  model: string,
  temperature: number | undefined,
  topP: number | undefined,
  warnings: Warnings,
): Sampling {
  if (temperature === undefined || topP === undefined || claudeGeneration(model).sampling === 'both')
    return { temperature, topP }
  if (!isNonDefault(topP)) return { temperature }
  if (!isNonDefault(temperature)) return { topP }
  warnings.lost('top_p', 'is not accepted beside temperature and was left out')
  return { temperature }
}
