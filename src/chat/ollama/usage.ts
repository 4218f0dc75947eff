import { EMPTY, type Usage } from '../../domain/usage.ts'
import { count } from '../../metering/openai-usage.ts'

/** Reads the counts of the last line. The server may not count a cached prompt; the gateway then counts it. */
export function readOllamaUsage(answer: unknown): Usage | undefined {
  const input = count(answer, 'prompt_eval_count')
  const output = count(answer, 'eval_count')
  if (input === undefined || output === undefined) return undefined
  return { ...EMPTY, input, output, calls: 1 }
}
