import { isObject, member } from '../domain/json-value.ts'
import { decimalText, sumVendorUsd, vendorUsd } from '../domain/money.ts'
import type { Usage } from '../domain/usage.ts'

/** How a vendor's counts differ from the common definition. */
export type UsageOptions = {
  /**
   * `completion_tokens` excludes reasoning. `total_tokens` beyond the sum of the other two confirms it, even if reasoning
   * is not itemized or is included after all. Without this option, the total must exceed the sum by exactly the itemized
   * reasoning: xAI's models are also sold by other hosts.
   */
  readonly reasoningOutside?: boolean
}

/** No context is that long: a greater count is an error of the vendor, and multiplied by a price it might be inexact. */
export const MAX_COUNT = 1e9

/**
 * Reads a `usage` object in the common format: `prompt_tokens` includes cache reads and writes, `completion_tokens`
 * includes reasoning, and details are parts of them. Undefined if it is invalid; the gateway then counts itself. Invalid
 * details are ignored, and details never exceed their total.
 */
export function readOpenAiUsage(value: unknown, options: UsageOptions = {}): Usage | undefined {
  if (!isObject(value)) return undefined
  const total = count(value, 'total_tokens')
  // A missing count is computed from the total; some embedding hosts report a total only.
  const reportedCompletion = isPresent(value, 'completion_tokens') ? count(value, 'completion_tokens') : 0
  const prompt = isPresent(value, 'prompt_tokens')
    ? count(value, 'prompt_tokens')
    : difference(total, reportedCompletion)
  const completion = isPresent(value, 'completion_tokens') ? reportedCompletion : difference(total, prompt)
  if (prompt === undefined || completion === undefined) return undefined
  const reasoning =
    count(member(value, 'completion_tokens_details'), 'reasoning_tokens') ??
    count(value, 'reasoning_tokens') ??
    0
  // A vendor that bills citations reports them and its reasoning beside the other two, and in no total.
  const cited = count(value, 'citation_tokens')
  const beyondSum = difference(total, prompt + completion)
  const reasoningInTotal = options.reasoningOutside
    ? (beyondSum ?? reasoning)
    : beyondSum === reasoning
      ? reasoning
      : 0
  const outside = cited === undefined ? reasoningInTotal : reasoning
  const { input, cachedInput, cacheWrite, audioInput, imageInput } = splitPrompt(value, prompt)
  const split = splitCompletion(value, { completion, reasoning, outside })
  const serverTools = member(value, 'server_tool_use')
  // Written out, because spreading objects is slow and every answer is read here.
  const usage: Usage = {
    input: input + (cited ?? 0),
    cachedInput,
    cacheWrite,
    cacheWrite1h: 0,
    audioInput,
    imageInput,
    output: split.output,
    reasoning: split.reasoning,
    audioOutput: split.audioOutput,
    imageOutput: split.imageOutput,
    characters: 0,
    seconds: 0,
    images: 0,
    searches: count(value, 'num_search_queries') ?? count(serverTools, 'web_search_requests') ?? 0,
    fileSearches: 0,
    codeInterpreterCalls: 0,
    imageGenerationCalls: 0,
    calls: 1,
  }
  const vendorCost = vendorCostIn(value)
  return vendorCost === undefined ? usage : { ...usage, vendorCost }
}

const TICK_DIGITS = 10

/**
 * The cost that the vendor reports: in dollars (`cost`, `estimated_cost`), as an object with a total, or in ticks of
 * 1e-10 dollars. If the account uses its own key for the vendor behind this one, that vendor's cost is added.
 */
export function vendorCostIn(usage: unknown): string | undefined {
  const cost = member(usage, 'cost') ?? member(usage, 'estimated_cost')
  if (typeof cost === 'number') {
    const behind =
      member(usage, 'is_byok') === true && member(member(usage, 'cost_details'), 'upstream_inference_cost')
    const amounts = [cost, typeof behind === 'number' ? behind : 0].map(vendorUsd)
    return amounts.includes(undefined) ? undefined : sumVendorUsd(amounts as string[])
  }
  if (isObject(cost)) {
    const { total_cost: total, currency = 'USD' } = cost
    return typeof total === 'number' && currency === 'USD' ? vendorUsd(total) : undefined
  }
  const ticks = member(usage, 'cost_in_usd_ticks')
  return typeof ticks === 'number' && Number.isSafeInteger(ticks) && ticks >= 0
    ? decimalText(BigInt(ticks), TICK_DIGITS)
    : undefined
}

/** The usage of an answer or of a chunk, in any of the places where vendors put it. */
export function usageIn(answer: unknown, options: UsageOptions = {}): Usage | undefined {
  const usage =
    readOpenAiUsage(member(answer, 'usage'), options) ??
    readOpenAiUsage(member(member(answer, 'x_groq'), 'usage'), options)
  if (usage !== undefined) return usage
  const choices = member(answer, 'choices')
  return Array.isArray(choices) ? readOpenAiUsage(member(choices[0], 'usage'), options) : undefined
}

function splitPrompt(usage: unknown, prompt: number) {
  const details = member(usage, 'prompt_tokens_details')
  const cached =
    count(details, 'cached_tokens') ??
    count(usage, 'prompt_cache_hit_tokens') ??
    count(usage, 'num_cached_tokens') ??
    count(usage, 'cached_tokens')
  const cacheWrites = count(details, 'cache_write_tokens') ?? count(details, 'cache_creation_input_tokens')
  // Cached audio is reported twice, as cached and as audio; it is billed as cached.
  const cachedDetails = member(details, 'cached_tokens_details')
  const uncached = (kind: string) => (count(details, kind) ?? 0) - (count(cachedDetails, kind) ?? 0)
  const take = taker(prompt)
  return {
    cachedInput: take(cached),
    cacheWrite: take(cacheWrites),
    audioInput: take(uncached('audio_tokens')),
    imageInput: take(uncached('image_tokens')),
    input: take(prompt),
  }
}

type ReportedOutput = { readonly completion: number; readonly reasoning: number; readonly outside: number }

function splitCompletion(usage: unknown, { completion, reasoning, outside }: ReportedOutput) {
  const details = member(usage, 'completion_tokens_details')
  const take = taker(completion)
  return {
    reasoning: outside + take(reasoning - outside),
    audioOutput: take(count(details, 'audio_tokens')),
    imageOutput: take(count(details, 'image_tokens')),
    output: take(completion),
  }
}

/** Returns a function that takes shares of a total, each limited to what is left. */
function taker(total: number): (wanted: number | undefined) => number {
  let remaining = total
  return (amount = 0) => {
    const share = Math.min(Math.max(amount, 0), remaining)
    remaining -= share
    return share
  }
}

const isPresent = (usage: unknown, name: string): boolean => (member(usage, name) ?? undefined) !== undefined

/** A negative, fractional, infinite or textual count is invalid. */
export function count(usage: unknown, name: string): number | undefined {
  const value = member(usage, name)
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > MAX_COUNT)
    return undefined
  // JSON has a negative zero.
  return value === 0 ? 0 : value
}

function difference(total: number | undefined, part: number | undefined): number | undefined {
  return total === undefined || part === undefined || total < part ? undefined : total - part
}
