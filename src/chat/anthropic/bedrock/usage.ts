import { isObject, member } from '../../../domain/json-value.ts'
import { EMPTY, type Usage } from '../../../domain/usage.ts'
import { count } from '../../../metering/openai-usage.ts'

/**
 * Reads a `usage` of this format: `inputTokens` excludes cache reads and writes. Older answers use other names for the
 * cache counts, and some use both. `cacheDetails` reports the ttl of the written tokens.
 */
export function readBedrockUsage(value: unknown): Usage | undefined {
  const input = count(value, 'inputTokens')
  const output = count(value, 'outputTokens')
  if (input === undefined || output === undefined) return undefined
  const cacheWrites = count(value, 'cacheWriteInputTokens') ?? count(value, 'cacheWriteInputTokenCount') ?? 0
  const hour = Math.min(writtenForAnHour(member(value, 'cacheDetails')), cacheWrites)
  return {
    ...EMPTY,
    input,
    cachedInput: count(value, 'cacheReadInputTokens') ?? count(value, 'cacheReadInputTokenCount') ?? 0,
    cacheWrite: cacheWrites - hour,
    cacheWrite1h: hour,
    output,
    calls: 1,
  }
}

function writtenForAnHour(details: unknown): number {
  if (!Array.isArray(details)) return 0
  return details
    .filter(isObject)
    .filter(({ ttl }) => ttl === '1h')
    .reduce((sum, detail) => sum + (count(detail, 'inputTokens') ?? 0), 0)
}
