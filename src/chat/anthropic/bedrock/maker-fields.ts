import type { JsonObject } from '../../../domain/json-value.ts'
import type { BedrockMaker } from '../../../models/bedrock-makers.ts'

const LEVELS: Readonly<Record<string, string>> = { minimal: 'low', xhigh: 'high', max: 'high' }

/** `top_k` under the maker's own name; undefined: its models do not accept it. */
export const topKFields = ({ topK: path }: BedrockMaker, value: number): JsonObject | undefined =>
  path?.split('.').reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as JsonObject | undefined

/** The reasoning effort in the maker's own field; undefined: its models do not accept one. */
export function effortFields({ effort: field }: BedrockMaker, effort: string): JsonObject | undefined {
  const level = LEVELS[effort] ?? effort
  switch (field) {
    case 'reasoning_effort':
      return { reasoning_effort: level }
    case 'reasoningConfig':
      return {
        reasoningConfig:
          effort === 'none' ? { type: 'disabled' } : { type: 'enabled', maxReasoningEffort: level },
      }
    default:
      return undefined
  }
}
