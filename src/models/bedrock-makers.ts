import { createLookup } from './name-pattern.ts'

/** The features that the models of one maker support on Amazon Bedrock beyond the common fields. */
export type BedrockMaker = {
  readonly matches: readonly string[]
  readonly isClaude?: true
  /** Accepts cache points. */
  readonly hasCache?: true
  /** The path of `top_k` within the additional fields. */
  readonly topK?: string
  /** The additional field that holds the reasoning effort. */
  readonly effort?: 'reasoningConfig' | 'reasoning_effort'
}

/** By a part of the model id, which may have a region prefix (`us.anthropic.claude…`) or be an ARN. */
export const BEDROCK_MAKERS = [
  { matches: ['*anthropic*', '*claude*'], isClaude: true, hasCache: true, topK: 'top_k' },
  { matches: ['*amazon.nova*'], hasCache: true, topK: 'inferenceConfig.topK', effort: 'reasoningConfig' },
  { matches: ['*cohere.*'], topK: 'k' },
  { matches: ['*mistral.*'], topK: 'top_k' },
  { matches: ['*openai.*'], effort: 'reasoning_effort' },
] as const satisfies readonly BedrockMaker[]

const OTHER: BedrockMaker = { matches: ['*'] }
const findMaker = createLookup<BedrockMaker>(BEDROCK_MAKERS)

export const bedrockMaker = (model: string): BedrockMaker => findMaker(model) ?? OTHER
