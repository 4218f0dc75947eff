import { sumVendorUsd } from './money.ts'
import type { ToolName } from './rate.ts'

/**
 * What one request used up, in counts that never overlap: a token stands in exactly one of them, so that a cost is a plain
 * sum. Every count is a whole number from 0 on.
 */
export type Counts = {
  /** Text of the prompt that came from no cache and went into none. */
  readonly input: number
  readonly cachedInput: number
  readonly cacheWrite: number
  /** Written to a cache that lives an hour, which vendors sell dearer than the short one. */
  readonly cacheWrite1h: number
  readonly audioInput: number
  readonly imageInput: number
  /** Text of the answer without its reasoning. */
  readonly output: number
  readonly reasoning: number
  readonly audioOutput: number
  readonly imageOutput: number
  readonly characters: number
  /** Started seconds: a part of one counts whole. */
  readonly seconds: number
  readonly images: number
  /** Search units of a rerank, or web searches that the provider made for a chat. */
  readonly searches: number
  readonly fileSearches: number
  readonly codeInterpreterCalls: number
  readonly imageGenerationCalls: number
  /** What `per_call` is multiplied by: 1, or the number of pictures or videos asked for. */
  readonly calls: number
}

export type Count = keyof Counts

/** A further inference that the vendor ran for the same request: a summary of a long prompt, advice of another model. */
export type Inference = {
  readonly counts: Counts
  /** The model that ran it, where that is not the requested one. */
  readonly model?: string
}

export type Usage = Counts & {
  /** Priced one by one, because each prompt has a length and perhaps a model of its own. Absent rather than empty. */
  readonly inferences?: readonly Inference[]
  /** What the vendor says it bills for the request: USD as a decimal text. */
  readonly vendorCost?: string
}

/** Nothing happened, so nothing is owed. */
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

/** Calls of tools that the provider ran, by the tool. */
export const TOOL_COUNTS = {
  web_search: 'searches',
  file_search: 'fileSearches',
  code_interpreter: 'codeInterpreterCalls',
  image_generation: 'imageGenerationCalls',
} as const satisfies Record<ToolName, Count>
export type ToolCount = (typeof TOOL_COUNTS)[ToolName]

/** How often tools of the provider were called; what is absent was not. */
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

/** The whole prompt, cached tokens included: what tiers of a price are chosen by. */
export const totalInput = (usage: Counts): number =>
  usage.input +
  usage.cachedInput +
  usage.cacheWrite +
  usage.cacheWrite1h +
  usage.audioInput +
  usage.imageInput

export const totalOutput = (usage: Counts): number =>
  usage.output + usage.reasoning + usage.audioOutput + usage.imageOutput

/** The usage of one call whose tokens were counted by us, who cannot tell the kinds apart. */
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

/** Several usages as one. */
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

/** Every count of a request, further inferences included: what its usage row, its rate limits and its client see. */
export const allCounts = (usage: Usage): Counts =>
  usage.inferences === undefined ? usage : sumUsage([usage, ...usage.inferences.map(({ counts }) => counts)])

/** Every token of a request. */
export const allTokens = (usage: Usage): number => {
  const counts = allCounts(usage)
  return totalInput(counts) + totalOutput(counts)
}

/** Started seconds. */
export const wholeSeconds = (seconds: number): number => Math.max(0, Math.ceil(seconds))

/** A usage with at least these calls of tools: what was told may be silent about them, and never says less than was seen. */
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
