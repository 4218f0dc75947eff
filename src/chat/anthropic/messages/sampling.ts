import { claudeGeneration } from '../../../models/generation.ts'
import type { ChatRequest } from '../../hub/hub.ts'
import type { Warnings } from '../../hub/warnings.ts'

export type Sampling = {
  readonly temperature?: number | undefined
  readonly topP?: number | undefined
  readonly topK?: number | undefined
}

/** A thinking model may leave out no more than this of what it chooses from. */
const MIN_TOP_P_THINKING = 0.95

/** How Claude is told to choose its words, on whatever host it runs: what the vendor would refuse is left out. */
export function fitSampling(request: ChatRequest, isThinking: boolean, warnings: Warnings): Sampling {
  const { model, temperature, topP, topK } = request
  if (claudeGeneration(model).sampling === 'never') return withoutSampling(request, warnings)
  if (isThinking) return fitThinking(request, warnings)
  if (temperature !== undefined && temperature > 1)
    warnings.lost('temperature', 'was lowered to 1, the highest')
  return { ...fitPair(model, temperature && Math.min(temperature, 1), topP, warnings), topK }
}

/** The vendor's defaults say nothing, so that nobody misses them. */
const isSaid = (value: number | undefined): value is number => value !== undefined && value !== 1

function withoutSampling({ temperature, topP, topK }: ChatRequest, warnings: Warnings): Sampling {
  const wishes = [
    isSaid(temperature) && 'temperature',
    isSaid(topP) && 'top_p',
    topK !== undefined && 'top_k',
  ]
  for (const name of wishes) if (name) warnings.lost(name, 'the model refuses it, and it was left out')
  return {}
}

function fitThinking({ model, temperature, topP, topK }: ChatRequest, warnings: Warnings): Sampling {
  if (isSaid(temperature)) {
    warnings.lost('temperature', 'cannot be set while the model thinks and was left out')
  }
  if (topK !== undefined) warnings.lost('top_k', 'cannot be set while the model thinks and was left out')
  const isNarrow = topP !== undefined && topP < MIN_TOP_P_THINKING
  if (isNarrow)
    warnings.lost('top_p', `cannot be below ${MIN_TOP_P_THINKING} while the model thinks and was left out`)
  return fitPair(model, temperature === 1 ? 1 : undefined, isNarrow ? undefined : topP, warnings)
}

/** Where only one of them is taken, a default gives way to what was chosen. */
function fitPair(
  model: string,
  temperature: number | undefined,
  topP: number | undefined,
  warnings: Warnings,
): Sampling {
  if (temperature === undefined || topP === undefined || claudeGeneration(model).sampling === 'both')
    return { temperature, topP }
  if (!isSaid(topP)) return { temperature }
  if (!isSaid(temperature)) return { topP }
  warnings.lost('top_p', 'the model takes no temperature beside it, and it was left out')
  return { temperature }
}
