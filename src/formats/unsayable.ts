import type { ChatRequest } from './hub.ts'
import type { Warnings } from './warnings.ts'

/** Wishes by the names that clients know them by. */
const NAMES = {
  topK: 'top_k',
  seed: 'seed',
  presencePenalty: 'presence_penalty',
  frequencyPenalty: 'frequency_penalty',
  logprobs: 'logprobs',
  verbosity: 'verbosity',
  audio: 'audio',
  safety: 'safety',
  user: 'user',
  serviceTier: 'service_tier',
} as const satisfies Partial<Record<keyof ChatRequest, string>>

/** Warns of those wishes of a request that no field of a format can say; every format here writes one answer of text. */
export function warnUnsayable(
  request: ChatRequest,
  wishes: readonly (keyof typeof NAMES)[],
  warnings: Warnings,
): void {
  for (const wish of wishes) {
    if (request[wish] !== undefined) warnings.lost(NAMES[wish], 'has no counterpart and was left out')
  }
  if ((request.choices ?? 1) > 1) warnings.lost('n', 'only one answer can be had')
  if (request.modalities?.some(each => each !== 'text')) warnings.lost('modalities', 'only text can be had')
  if (request.output?.type === 'schema' && request.output.description !== undefined) {
    warnings.lost('response_format.description', 'has no counterpart and was left out')
  }
}
