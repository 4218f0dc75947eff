import { isObject, type JsonObject, member } from '../../domain/json-value.ts'
import { allCounts, EMPTY, type ToolCalls, totalInput, type Usage } from '../../domain/usage.ts'
import { count } from '../../metering/openai-usage.ts'
import { geminiGeneration } from '../../models/generation.ts'

/**
 * The usage of an answer or event: `promptTokenCount` includes cached tokens, and `candidatesTokenCount` excludes
 * thinking. Undefined: no prompt count is reported.
 */
export function usageIn(answer: unknown): Usage | undefined {
  const tokens = tokensIn(answer)
  return tokens && { ...tokens, ...toolCallsIn(answer) }
}

/** The same without calls of tools, for events, whose calls are added up. */
export function tokensIn(answer: unknown): Usage | undefined {
  const metadata = member(answer, 'usageMetadata')
  const prompt = count(metadata, 'promptTokenCount')
  if (prompt === undefined) return undefined
  const forTools = count(metadata, 'toolUsePromptTokenCount') ?? 0
  return {
    ...EMPTY,
    ...splitPrompt(metadata, prompt, forTools),
    ...splitAnswer(metadata, prompt + forTools),
    calls: 1,
  }
}

/** Results of the vendor's own tools count as prompt tokens, and are never cached. */
function splitPrompt(metadata: unknown, prompt: number, forTools: number) {
  const take = taker(prompt)
  const fresh = (modality: string) =>
    tokensOf(metadata, 'promptTokensDetails', modality) - tokensOf(metadata, 'cacheTokensDetails', modality)
  return {
    cachedInput: take(count(metadata, 'cachedContentTokenCount') ?? 0),
    audioInput: take(fresh('AUDIO')),
    imageInput: take(fresh('IMAGE')),
    input: take(prompt) + forTools,
  }
}

/** Missing counts are computed from the total. */
function splitAnswer(metadata: unknown, input: number) {
  const total = count(metadata, 'totalTokenCount')
  const thoughts = count(metadata, 'thoughtsTokenCount')
  const candidates = count(metadata, 'candidatesTokenCount')
  const remainder = (otherTokens: number) => Math.max((total ?? 0) - input - otherTokens, 0)
  const answerTokens = candidates ?? remainder(thoughts ?? 0)
  const take = taker(answerTokens)
  return {
    reasoning: thoughts ?? remainder(answerTokens),
    audioOutput: take(tokensOf(metadata, 'candidatesTokensDetails', 'AUDIO')),
    imageOutput: take(tokensOf(metadata, 'candidatesTokensDetails', 'IMAGE')),
    output: take(answerTokens),
  }
}

/** Returns a function that takes shares of a total, each limited to what is left. */
function taker(total: number): (wanted: number) => number {
  let remaining = total
  return amount => {
    const share = Math.min(Math.max(amount, 0), remaining)
    remaining -= share
    return share
  }
}

function tokensOf(metadata: unknown, details: string, modality: string): number {
  const list = member(metadata, details)
  if (!Array.isArray(list)) return 0
  let tokens = 0
  for (const each of list) {
    if (member(each, 'modality') === modality) tokens += count(each, 'tokenCount') ?? 0
  }
  return tokens
}

/** Calls of the vendor's tools in an answer or event. */
export type GeminiCalls = Pick<Usage, 'searches' | 'fileSearches' | 'codeInterpreterCalls'>

/** Older models bill one search per answer, newer ones each search. Maps queries are billed as searches. */
export function toolCallsIn(answer: unknown): GeminiCalls {
  const candidates = member(answer, 'candidates')
  let queries = 0
  let fileSearches = 0
  let codeInterpreterCalls = 0
  for (const candidate of Array.isArray(candidates) ? candidates : []) {
    const parts = member(member(candidate, 'content'), 'parts')
    if (Array.isArray(parts))
      for (const part of parts) if (isObject(member(part, 'executableCode'))) codeInterpreterCalls += 1
    const grounding = member(candidate, 'groundingMetadata')
    const webQueries = member(grounding, 'webSearchQueries')
    if (Array.isArray(webQueries)) queries += webQueries.length
    const chunks = member(grounding, 'groundingChunks')
    if (!Array.isArray(chunks)) continue
    if (chunks.some(chunk => member(chunk, 'maps') !== undefined)) queries += 1
    if (chunks.some(chunk => member(chunk, 'retrievedContext') !== undefined)) fileSearches += 1
  }
  const model = member(answer, 'modelVersion')
  const isEachSold = typeof model === 'string' && geminiGeneration(model).billsEachSearch
  return { searches: isEachSold ? queries : Math.min(queries, 1), fileSearches, codeInterpreterCalls }
}

/** The same for a non-stream answer, with or without usage; undefined: none. */
export function callsIn(answer: unknown): ToolCalls | undefined {
  const calls = toolCallsIn(answer)
  return calls.searches + calls.fileSearches + calls.codeInterpreterCalls > 0 ? calls : undefined
}

/** Encodes usage in this format; tokens written to a cache count as prompt tokens. */
export function encodeUsage(requestUsage: Usage): JsonObject {
  const usage = allCounts(requestUsage)
  const { audioInput, imageInput, output, audioOutput, imageOutput, reasoning, cachedInput } = usage
  const prompt = totalInput(usage)
  const answerTokens = output + audioOutput + imageOutput
  return {
    promptTokenCount: prompt,
    candidatesTokenCount: answerTokens,
    totalTokenCount: prompt + answerTokens + reasoning,
    ...(cachedInput > 0 && { cachedContentTokenCount: cachedInput }),
    ...(reasoning > 0 && { thoughtsTokenCount: reasoning }),
    ...detailed('promptTokensDetails', prompt, { AUDIO: audioInput, IMAGE: imageInput }),
    ...detailed('candidatesTokensDetails', answerTokens, { AUDIO: audioOutput, IMAGE: imageOutput }),
  }
}

function detailed(name: string, total: number, kinds: Readonly<Record<string, number>>): JsonObject {
  const others = Object.entries(kinds).filter(([, tokens]) => tokens > 0)
  const text = total - others.reduce((sum, [, tokens]) => sum + tokens, 0)
  const list = [...(text > 0 ? [['TEXT', text] as const] : []), ...others]
  return { [name]: list.map(([modality, tokenCount]) => ({ modality, tokenCount })) }
}
