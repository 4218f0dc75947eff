import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import {
  allCounts,
  type Counts,
  EMPTY,
  type Inference,
  totalInput,
  totalOutput,
  type Usage,
} from '../../../domain/usage.ts'
import { count, vendorCostIn } from '../../../metering/openai-usage.ts'

/**
 * Reads a `usage` of this format: `input_tokens` excludes cache reads and writes, and `output_tokens` includes thinking.
 * Undefined if either is missing.
 */
export function readAnthropicUsage(value: unknown): Usage | undefined {
  const counts = countsIn(value)
  if (counts === undefined) return undefined
  const cost = vendorCostIn(value)
  const usage = cost === undefined ? counts : { ...counts, vendorCost: cost }
  const iterations = member(value, 'iterations')
  return Array.isArray(iterations) ? withIterations(usage, iterations) : usage
}

function countsIn(value: unknown): Counts | undefined {
  const input = count(value, 'input_tokens')
  const output = count(value, 'output_tokens')
  if (input === undefined || output === undefined) return undefined
  const cacheWrites = count(value, 'cache_creation_input_tokens')
  const split = member(value, 'cache_creation')
  const hour = count(split, 'ephemeral_1h_input_tokens') ?? 0
  const short =
    cacheWrites === undefined ? (count(split, 'ephemeral_5m_input_tokens') ?? 0) : cacheWrites - hour
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

type Iteration = Inference & { readonly isMessage: boolean }

/** Iterations of the requested model itself; all others name their model. */
const OWN_ITERATIONS: readonly unknown[] = ['message', 'compaction']
/** The vendor ends a request after ten rounds of its tools, each with at most a summary and an advice. */
const MAX_ITERATIONS = 64

const tokensOf = (counts: Counts) => totalInput(counts) + totalOutput(counts)

function iterationIn(entry: unknown): readonly Iteration[] {
  const counts = countsIn(entry)
  if (counts === undefined) return []
  const type = member(entry, 'type')
  const model = OWN_ITERATIONS.includes(type) ? undefined : member(entry, 'model')
  return [
    {
      isMessage: type === 'message',
      counts: { ...counts, searches: 0, calls: 0 },
      ...(typeof model === 'string' && { model }),
    },
  ]
}

/**
 * `iterations` lists every inference of a request, and each is billed. The counts beside it exclude the summary of a long
 * conversation (compaction), the advice of another model, and the prompts of later rounds. A list with fewer tokens than
 * those counts is incomplete.
 */
function withIterations(usage: Usage, list: readonly unknown[]): Usage {
  const iterations = list.slice(0, MAX_ITERATIONS).flatMap(iterationIn)
  const main = iterations.find(({ isMessage }) => isMessage)
  const others = iterations.filter(each => each !== main)
  if (
    main !== undefined &&
    iterations.reduce((sum, { counts }) => sum + tokensOf(counts), 0) < tokensOf(usage)
  )
    return usage
  if (others.length === 0) return usage
  const inferences = others.map(({ isMessage: _, ...inference }) => inference)
  if (main === undefined) return { ...usage, inferences }
  const { output } = main.counts
  const reasoning = Math.min(usage.reasoning, output)
  const { searches, calls } = usage
  return { ...usage, ...main.counts, searches, calls, output: output - reasoning, reasoning, inferences }
}

const PROMPT_COUNTS: readonly string[] = [
  'input_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'cache_creation',
]

/** A later report of a count replaces the earlier one. Some hosts end a stream with zeros for the prompt, which replace nothing. */
export function mergedUsage(previous: JsonObject, update: unknown): JsonObject {
  if (!isObject(update)) return previous
  const hasPrompt = PROMPT_COUNTS.some(name => (count(update, name) ?? 0) > 0)
  const isReport = ([name, value]: readonly [string, unknown]) =>
    value !== null && (hasPrompt || previous[name] === undefined || !PROMPT_COUNTS.includes(name))
  return { ...previous, ...Object.fromEntries(Object.entries(update).filter(isReport)) }
}

/** Encodes usage in this format; audio and image tokens count as ordinary tokens. */
export function encodeUsage(requestUsage: Usage): JsonObject {
  const usage = allCounts(requestUsage)
  const cacheWrites = usage.cacheWrite + usage.cacheWrite1h
  return {
    input_tokens: usage.input + usage.audioInput + usage.imageInput,
    cache_creation_input_tokens: cacheWrites,
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
