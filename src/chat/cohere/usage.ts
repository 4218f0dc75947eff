import { member } from '../../domain/json-value.ts'
import { EMPTY, type Usage } from '../../domain/usage.ts'
import { count } from '../../metering/openai-usage.ts'

/**
 * Reads a `usage` of this format. `billed_units` is charged by the vendor. `tokens` includes instructions that the vendor
 * adds and does not bill, so it counts only if there is nothing else. `cached_tokens` is a part of `tokens` and may
 * exceed the billed ones.
 */
export function readCohereUsage(value: unknown): Usage | undefined {
  const billed = countsIn(member(value, 'billed_units'))
  if (billed !== undefined) return usageOf({ ...billed, cached: 0, reasoning: thoughtIn(value) })
  const tokens = countsIn(member(value, 'tokens'))
  if (tokens === undefined) return undefined
  const cached = Math.min(count(value, 'cached_tokens') ?? 0, tokens.input)
  return usageOf({ ...tokens, cached, reasoning: thoughtIn(value) })
}

const thoughtIn = (usage: unknown) => count(member(usage, 'tokens'), 'reasoning_tokens') ?? 0

function countsIn(units: unknown): { input: number; output: number } | undefined {
  const input = count(units, 'input_tokens')
  const output = count(units, 'output_tokens')
  return input === undefined || output === undefined ? undefined : { input, output }
}

type Counts = {
  readonly input: number
  readonly output: number
  readonly cached: number
  readonly reasoning: number
}

function usageOf({ input, output, cached, reasoning }: Counts): Usage {
  const thought = Math.min(reasoning, output)
  return {
    ...EMPTY,
    input: input - cached,
    cachedInput: cached,
    output: output - thought,
    reasoning: thought,
    calls: 1,
  }
}
