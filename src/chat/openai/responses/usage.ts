import { isObject, type JsonObject } from '../../../domain/json-value.ts'
import {
  allCounts,
  type ToolCalls,
  totalInput,
  totalOutput,
  type Usage,
  withToolCalls,
} from '../../../domain/usage.ts'
import { readOpenAiUsage, type UsageOptions } from '../../../metering/openai-usage.ts'
import { mostCalls, reportedCalls, toolCallsIn } from '../../../metering/tool-calls.ts'

/**
 * Reads a `usage` of this format. An interrupted answer may report only zeros; no request has an empty prompt, so that
 * counts as absent.
 */
export function readResponsesUsage(value: unknown, options: UsageOptions = {}): Usage | undefined {
  if (!isObject(value)) return undefined
  const { input_tokens, output_tokens, input_tokens_details, output_tokens_details, ...rest } = value
  if (input_tokens === 0 && output_tokens === 0) return undefined
  const renamed = {
    ...rest,
    prompt_tokens: input_tokens,
    completion_tokens: output_tokens,
    prompt_tokens_details: input_tokens_details,
    completion_tokens_details: output_tokens_details,
  }
  return input_tokens === undefined ? undefined : readOpenAiUsage(renamed, options)
}

/** The calls of the vendor's tools in a response: the count of its items, or the reported total if that is greater. */
export const callsIn = (response: JsonObject): ToolCalls | undefined =>
  mostCalls(toolCallsIn(Array.isArray(response.output) ? response.output : []), reportedCalls(response))

/** The usage of a response, with the calls of the vendor's tools, which `usage` does not contain. */
export function usageIn(response: JsonObject, options?: UsageOptions): Usage | undefined {
  const usage = readResponsesUsage(response.usage, options)
  return usage && withToolCalls(usage, callsIn(response))
}

export function encodeUsage(requestUsage: Usage): JsonObject {
  const usage = allCounts(requestUsage)
  const input = totalInput(usage)
  const output = totalOutput(usage)
  const cacheWrites = usage.cacheWrite + usage.cacheWrite1h
  return {
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: usage.cachedInput,
      ...(cacheWrites > 0 && { cache_write_tokens: cacheWrites }),
      ...(usage.audioInput > 0 && { audio_tokens: usage.audioInput }),
      ...(usage.imageInput > 0 && { image_tokens: usage.imageInput }),
    },
    output_tokens: output,
    output_tokens_details: {
      reasoning_tokens: usage.reasoning,
      ...(usage.audioOutput > 0 && { audio_tokens: usage.audioOutput }),
      ...(usage.imageOutput > 0 && { image_tokens: usage.imageOutput }),
    },
    total_tokens: input + output,
  }
}
