import type { ChatRequest } from './hub.ts'
import type { Warnings } from './warnings.ts'

/** The names by which clients know these parameters. */
const NAMES = {
  topK: 'top_k',
  seed: 'seed',
  stop: 'stop',
  presencePenalty: 'presence_penalty',
  frequencyPenalty: 'frequency_penalty',
  logprobs: 'logprobs',
  verbosity: 'verbosity',
  audio: 'audio',
  safety: 'safety',
  user: 'user',
  serviceTier: 'service_tier',
} as const satisfies Partial<Record<keyof ChatRequest, string>>

type Parameter = keyof typeof NAMES

/** Warns about the parameters of a request that a format has no field for. */
export function warnUnsupported(
  request: ChatRequest,
  parameters: readonly Parameter[],
  warnings: Warnings,
): void {
  for (const parameter of parameters) {
    if (request[parameter] !== undefined) warnings.unsupported(NAMES[parameter])
  }
}

/** Warns about several choices, and about output other than text. */
export function warnBeyondText(request: ChatRequest, warnings: Warnings): void {
  if ((request.choices ?? 1) > 1) warnings.lost('n', 'only one choice is available')
  if (request.modalities?.some(each => each !== 'text')) warnings.lost('modalities', 'only text is available')
}

export function warnOfDescription({ output }: ChatRequest, warnings: Warnings): void {
  if (output?.type === 'schema' && output.description !== undefined) {
    warnings.unsupported('response_format.description')
  }
}
