import { EMPTY, type Usage } from '../../domain/usage.ts'
import { count } from '../../metering/openai-usage.ts'

/**
 * Reads the counts of a last line. A prompt that was still in memory may not be counted by the server; what it was is
 * then for the caller to count.
 */
export function readOllamaUsage(answer: unknown): Usage | undefined {
  const input = count(answer, 'prompt_eval_count')
  const output = count(answer, 'eval_count')
  if (input === undefined || output === undefined) return undefined
  return { ...EMPTY, input, output, calls: 1 }
}
