import type { JsonObject } from '../../../domain/json-value.ts'
import { allCounts, totalInput, totalOutput, type Usage } from '../../../domain/usage.ts'

/** Encodes usage in this format: prompt tokens include cache reads and writes, completion tokens include reasoning. */
export function encodeUsage(requestUsage: Usage): JsonObject {
  const usage = allCounts(requestUsage)
  const prompt = totalInput(usage)
  const completion = totalOutput(usage)
  const cacheWrites = usage.cacheWrite + usage.cacheWrite1h
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: usage.cachedInput,
      audio_tokens: usage.audioInput,
      ...(usage.imageInput > 0 && { image_tokens: usage.imageInput }),
      ...(cacheWrites > 0 && { cache_write_tokens: cacheWrites }),
    },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoning,
      audio_tokens: usage.audioOutput,
      ...(usage.imageOutput > 0 && { image_tokens: usage.imageOutput }),
    },
  }
}
