import { sumVendorUsd } from './money.ts'
import type { ToolName } from './rate.ts'

/**
 * The usage of one inference. Counts do not overlap: every token is in exactly one of them, so that the cost is a plain
 * sum. Every count is a non-negative integer.
 */
export type Counts = {
  /** Text tokens of the prompt that were neither read from nor written to a cache. */
  readonly input: number
  readonly cachedInput: number
  readonly cacheWrite: number
  /** Written to a cache of one hour, which costs more than the short one. */
  readonly cacheWrite1h: number
  readonly audioInput: number
  readonly imageInput: number
  /** Text tokens of the answer without reasoning. */
  readonly output: number
  readonly reasoning: number
  readonly audioOutput: number
  readonly imageOutput: number
  readonly characters: number
  /** Rounded up. */
  readonly seconds: number
  readonly images: number
  /** Search units of a rerank, or web searches of a chat that the provider ran. */
  readonly searches: number
  readonly fileSearches: number
  readonly codeInterpreterCalls: number
  readonly imageGenerationCalls: number
  /** The multiplier of `per_call`: 1, or the number of requested images or videos. */
  readonly calls: number
}

export type Count = keyof Counts

/** A further inference that the vendor ran for the same request, such as a summary of a long prompt. */
export type Inference = {
  readonly counts: Counts
  /** The model that ran it, if it is not the requested one. */
  readonly model?: string
}

export type Usage = Counts & {
  /** Priced separately, because each has its own prompt length and perhaps its own model. Absent rather than empty. */
  readonly inferences?: readonly Inference[]
  /** The cost that the vendor reports for the request: USD as a decimal string. */
  readonly vendorCost?: string
}

/** No usage. */
export const EMPTY: Counts = {
  input: 0,
  cachedInput: 0,
  cacheWrite: 0,
  cacheWrite1h: 0,
  audioInput: 0,
  imageInput: 0,
  output: 0,
  reasoning: 0,
  audioOutput: 0,
  imageOutput: 0,
  characters: 0,
  seconds: 0,
  images: 0,
  searches: 0,
  fileSearches: 0,
  codeInterpreterCalls: 0,
  imageGenerationCalls: 0,
  calls: 0,
}

/** The count of each tool that the provider runs. */
export const TOOL_COUNTS = {
  web_search: 'searches',
  file_search: 'fileSearches',
  code_interpreter: 'codeInterpreterCalls',
  image_generation: 'imageGenerationCalls',
} as const satisfies Record<ToolName, Count>
export type ToolCount = (typeof TOOL_COUNTS)[ToolName]

/** Calls of the provider's tools; an absent count is 0. */
export type ToolCalls = { readonly [count in ToolCount]?: number }

export const INPUT_COUNTS = [
  'input',
  'cachedInput',
  'cacheWrite',
  'cacheWrite1h',
  'audioInput',
  'imageInput',
] as const satisfies readonly Count[]

export const OUTPUT_COUNTS = [
  'output',
  'reasoning',
  'audioOutput',
  'imageOutput',
] as const satisfies readonly Count[]

/** All prompt tokens, cached ones included. They decide the tier of a price. */
export const totalInput = (usage: Counts): number =>
  usage.input +
  usage.cachedInput +
  usage.cacheWrite +
  usage.cacheWrite1h +
  usage.audioInput +
  usage.imageInput

export const totalOutput = (usage: Counts): number =>
  usage.output + usage.reasoning + usage.audioOutput + usage.imageOutput

/** The usage of one call whose tokens the gateway counted itself. It cannot distinguish kinds of tokens. */
export const countedUsage = (input: number, output: number): Usage => ({ ...EMPTY, input, output, calls: 1 })

export const withoutTokens = (usage: Usage): Usage => ({
  ...EMPTY,
  characters: usage.characters,
  seconds: usage.seconds,
  images: usage.images,
  searches: usage.searches,
  fileSearches: usage.fileSearches,
  codeInterpreterCalls: usage.codeInterpreterCalls,
  imageGenerationCalls: usage.imageGenerationCalls,
  calls: usage.calls,
})

/** The sum of several usages. */
export const sumUsage = (usages: readonly Usage[]): Usage => {
  const total = { ...EMPTY } as { -readonly [count in Count]: number }
  for (const usage of usages) for (const count of Object.keys(EMPTY) as Count[]) total[count] += usage[count]
  const inferences = usages.flatMap(usage => usage.inferences ?? [])
  const costs = usages.flatMap(({ vendorCost }) => vendorCost ?? [])
  return {
    ...total,
    ...(inferences.length > 0 && { inferences }),
    ...(costs.length > 0 && { vendorCost: sumVendorUsd(costs) }),
  }
}

/** The counts of a request with its further inferences, for its usage row, its rate limits and its client. */
export const allCounts = (usage: Usage): Counts =>
  usage.inferences === undefined ? usage : sumUsage([usage, ...usage.inferences.map(({ counts }) => counts)])

/** All tokens of a request. */
export const allTokens = (usage: Usage): number => {
  const counts = allCounts(usage)
  return totalInput(counts) + totalOutput(counts)
}

/** Without `calls`: every report counts its request. */
const REPORTED_COUNTS = (Object.keys(EMPTY) as Count[]).filter(count => count !== 'calls')

const isZero = (usage: Usage): boolean =>
  usage.inferences === undefined && REPORTED_COUNTS.every(count => usage[count] === 0)

/**
 * Whether a later report of a stream replaces an earlier one. Some hosts end a stream with a report of zeros, although the
 * provider bills the counts that they reported before.
 */
export const replacesUsage = (later: Usage, earlier: Usage | undefined): boolean =>
  earlier === undefined || !isZero(later) || isZero(earlier)

/** Seconds, rounded up. */
export const wholeSeconds = (seconds: number): number => Math.max(0, Math.ceil(seconds))

/** A usage with at least these tool calls: some providers omit calls from the usage that their stream contains. */
export function withToolCalls(usage: Usage, calls: ToolCalls | undefined): Usage {
  if (calls === undefined) return usage
  const most = (count: ToolCount) => Math.max(usage[count], calls[count] ?? 0)
  return {
    ...usage,
    searches: most('searches'),
    fileSearches: most('fileSearches'),
    codeInterpreterCalls: most('codeInterpreterCalls'),
    imageGenerationCalls: most('imageGenerationCalls'),
  }
}
