import type { JsonObject } from '../../../domain/json-value.ts'
import { takesSchemas } from '../messages/model.ts'

/** What the models of one maker take beyond what all of them do, and under which names. */
export type Family = {
  readonly isClaude?: true
  /** Takes marks of what is to be cached. */
  readonly hasCache?: true
  readonly topK?: (value: number) => JsonObject
  readonly effort?: (word: string) => JsonObject
}

const LEVELS: Readonly<Record<string, string>> = { minimal: 'low', xhigh: 'high', max: 'high' }
const levelOf = (effort: string): string => LEVELS[effort] ?? effort

const NOTHING: Family = {}

/** By a word of the model's id, which may have a region before it (`us.anthropic.claude…`) or be an ARN. */
const FAMILIES: readonly (readonly [RegExp, Family])[] = [
  [/anthropic|claude/, { isClaude: true, hasCache: true, topK: top_k => ({ top_k }) }],
  [
    /amazon\.nova/,
    {
      hasCache: true,
      topK: topK => ({ inferenceConfig: { topK } }),
      effort: word => ({
        reasoningConfig:
          word === 'none' ? { type: 'disabled' } : { type: 'enabled', maxReasoningEffort: levelOf(word) },
      }),
    },
  ],
  [/cohere\./, { topK: k => ({ k }) }],
  [/mistral\./, { topK: top_k => ({ top_k }) }],
  [/openai\./, { effort: word => ({ reasoning_effort: levelOf(word) }) }],
]

export const familyOf = (model: string): Family =>
  FAMILIES.find(([pattern]) => pattern.test(model))?.[1] ?? NOTHING

/** Schemas are taken for newer Claudes; for others it depends on what the maker serves. */
export const holdsToSchemas = (model: string): boolean => takesSchemas(model)
