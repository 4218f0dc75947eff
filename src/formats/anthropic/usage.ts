import { EMPTY, type Usage } from '../../domain/usage.ts'
import { count } from '../openai/usage.ts'
import { isObject, type JsonObject, member } from '../openai/value.ts'

/**
 * Reads a `usage` of this format: `input_tokens` are only those that came from no cache and went into none, and
 * `output_tokens` hold the thinking. Undefined when the two are not told.
 */
export function readAnthropicUsage(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined
  const input = count(value, 'input_tokens')
  const output = count(value, 'output_tokens')
  if (input === undefined || output === undefined) return undefined
  const written = count(value, 'cache_creation_input_tokens')
  const split = member(value, 'cache_creation')
  const hour = count(split, 'ephemeral_1h_input_tokens') ?? 0
  const short = written === undefined ? (count(split, 'ephemeral_5m_input_tokens') ?? 0) : written - hour
  const thinking = count(member(value, 'output_tokens_details'), 'thinking_tokens') ?? 0
  const reasoning = Math.min(thinking, output)
  return {
    ...EMPTY,
    input,
    cachedInput: count(value, 'cache_read_input_tokens') ?? 0,
    cacheWrite: Math.max(short, 0),
    cacheWrite1h: hour,
    output: output - reasoning,
    reasoning,
    searches: count(member(value, 'server_tool_use'), 'web_search_requests') ?? 0,
    calls: 1,
  }
}

/** A count that is told again replaces the first: the last word on each of them is the right one. */
export const restated = (known: JsonObject, told: unknown): JsonObject =>
  isObject(told)
    ? { ...known, ...Object.fromEntries(Object.entries(told).filter(([, value]) => value !== null)) }
    : known

/** Usage as this format tells it; audio and images are tokens like any other here. */
export function encodeUsage(usage: Usage): JsonObject {
  const written = usage.cacheWrite + usage.cacheWrite1h
  return {
    input_tokens: usage.input + usage.audioInput + usage.imageInput,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: usage.cachedInput,
    cache_creation: {
      ephemeral_5m_input_tokens: usage.cacheWrite,
      ephemeral_1h_input_tokens: usage.cacheWrite1h,
    },
    output_tokens: usage.output + usage.reasoning + usage.audioOutput + usage.imageOutput,
    ...(usage.reasoning > 0 && { output_tokens_details: { thinking_tokens: usage.reasoning } }),
    ...(usage.searches > 0 && {
      server_tool_use: { web_search_requests: usage.searches, web_fetch_requests: 0 },
    }),
  }
}
