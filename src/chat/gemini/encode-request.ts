import { isObject, type JsonObject } from '../../domain/json-value.ts'
import { geminiGeneration } from '../../models/generation.ts'
import type { GeminiGeneration } from '../../models/generations.ts'
import { withoutCacheMarks } from '../hub/cache.ts'
import { bodyOf, ownExtras } from '../hub/fields.ts'
import type { EncodedRequest } from '../hub/format.ts'
import type { ChatRequest, FunctionTool, Message, Reasoning, ToolChoice } from '../hub/hub.ts'
import { budgetOf } from '../hub/reasoning.ts'
import { tierIn } from '../hub/service-tier.ts'
import { withoutCustomTools } from '../hub/tools/custom-tools.ts'
import { HOSTED_TOOL } from '../hub/tools/tool-choice.ts'
import { toolNames } from '../hub/tools/tool-names.ts'
import { gatherTurns } from '../hub/turns.ts'
import { warnOfDescription, warnUnsupported } from '../hub/unsupported.ts'
import { createChatWarnings, type Warnings } from '../hub/warnings.ts'
import { encodePart, FORMAT, signFirstCall } from './content.ts'
import { isEmptySchema, toVendorSchema } from './schema.ts'
import { encodeResult } from './tool-result.ts'

/** The URL, not the body, contains the model and the stream flag. */
export function encodeRequest(original: ChatRequest): EncodedRequest {
  const warnings = createChatWarnings(original, FORMAT)
  const request = withoutCacheMarks(withoutCustomTools(original, warnings), warnings)
  warnings.foreign('', request)
  warnUnsupported(request, ['verbosity', 'audio', 'user'], warnings)
  warnOfDescription(request, warnings)
  if (request.parallelTools === false && request.tools !== undefined)
    warnings.lost('parallel_tool_calls', 'cannot be disabled')
  const own = ownExtras(FORMAT, request)
  const body = bodyOf({
    ...own,
    ...encodeMessages(request, warnings),
    tools: encodeTools(request, warnings),
    toolConfig: encodeToolConfig(request, own.toolConfig),
    safetySettings: request.safety ?? own.safetySettings,
    generationConfig: encodeConfig(request, own.generationConfig, warnings),
    serviceTier: tierIn(TIERS, request.serviceTier, warnings),
  })
  return { body, warnings: warnings.list() }
}

// --- Contents -----------------------------------------------------------------------------------------------------

/** The text of the user turn for a request with instructions only, which the vendor would reject. */
const PLACEHOLDER_TEXT = ' '

function encodeMessages(request: ChatRequest, warnings: Warnings): JsonObject {
  const { messages, model } = request
  const names = toolNames(messages)
  const { system, turns } = gatherTurns(messages, {
    warnings,
    blocksOf: (message, path) => encodeParts(message, names, { model, path, warnings }),
  })
  if (turns.length === 0) {
    warnings.lost('messages', 'instructions alone are not accepted: an empty user message was added')
    turns.push({ role: 'user', content: [{ text: PLACEHOLDER_TEXT }] })
  }
  return {
    contents: turns.map(({ role, content, first }) => ({
      ...(first && ownExtras(FORMAT, first)),
      ...(role === 'user'
        ? { role, parts: content }
        : { role: 'model', parts: signFirstCall(content, model) }),
    })),
    systemInstruction: system.length === 0 ? undefined : { parts: system },
  }
}

type Place = { readonly model: string; readonly path: string; readonly warnings: Warnings }

function encodeParts(
  { content }: Message,
  names: ReadonlyMap<string, string>,
  { model, path, warnings }: Place,
): readonly JsonObject[] {
  const parts = content.flatMap((part, index) => {
    const place = { model, path: `${path}.content[${index}]`, warnings }
    if (part.type !== 'toolResult') return encodePart(part, place)
    const name = part.name ?? names.get(part.callId)
    if (name === undefined)
      warnings.lost(place.path, 'belongs to no tool call: its id is sent as the name of the tool')
    return encodeResult(part, name ?? part.callId, place)
  })
  // Results directly follow their calls; media that do not fit into a result come after them.
  return [...parts.filter(isResult), ...parts.filter(part => !isResult(part))]
}

const isResult = (part: JsonObject): boolean => part.functionResponse !== undefined

// --- Tools --------------------------------------------------------------------------------------------------------

/** All functions share one entry, at the position of the first. */
function encodeTools(
  { tools, toolChoice }: ChatRequest,
  warnings: Warnings,
): readonly JsonObject[] | undefined {
  if (tools === undefined || tools.length === 0) return undefined
  const functionDeclarations: JsonObject[] = []
  const entries: JsonObject[] = []
  for (const [index, tool] of tools.entries()) {
    const path = `tools[${index}]`
    if (tool.type === 'function') {
      // The vendor enforces schemas only for forced calls, not for optional ones.
      if (tool.strict && (toolChoice?.mode ?? 'auto') === 'auto') {
        warnings.lost(`${path}.strict`, 'cannot be guaranteed and was left out')
      }
      if (functionDeclarations.length === 0) entries.push({ functionDeclarations })
      functionDeclarations.push(encodeFunction(tool, path, warnings))
    } else if (tool.type === 'vendor' && tool.format === FORMAT) entries.push(tool.value)
    else warnings.unsupported(path, HOSTED_TOOL)
  }
  return entries.length === 0 ? undefined : entries
}

function encodeFunction(tool: FunctionTool, path: string, warnings: Warnings): JsonObject {
  warnings.foreign(`${path}.`, tool)
  const { name, description, parameters } = tool
  const isWanted = parameters !== undefined && !isEmptySchema(parameters)
  return bodyOf({
    ...ownExtras(FORMAT, tool),
    name,
    description,
    parametersJsonSchema: isWanted ? toVendorSchema(parameters, `${path}.parameters`, warnings) : undefined,
  })
}

const MODES = { auto: 'AUTO', none: 'NONE', required: 'ANY' } as const satisfies Record<
  ToolChoice['mode'],
  string
>

const objectOf = (value: unknown): JsonObject => (isObject(value) ? value : {})

/** The vendor rejects a tool choice without functions. */
function encodeToolConfig({ tools = [], toolChoice }: ChatRequest, own: unknown): JsonObject | undefined {
  const rest = objectOf(own)
  if (toolChoice === undefined || !tools.some(tool => tool.type === 'function')) {
    return Object.keys(rest).length === 0 ? undefined : rest
  }
  const { mode, only } = toolChoice
  // Names are only allowed in a mode that enforces calls.
  const modeName = mode === 'auto' && only !== undefined ? 'VALIDATED' : MODES[mode]
  const allowed = only === undefined || mode === 'none' ? {} : { allowedFunctionNames: only }
  return {
    ...rest,
    functionCallingConfig: { ...objectOf(rest.functionCallingConfig), mode: modeName, ...allowed },
  }
}

// --- Parameters ---------------------------------------------------------------------------------------------------

const MAX_STOPS = 5

function encodeConfig(request: ChatRequest, own: unknown, warnings: Warnings): JsonObject | undefined {
  const { stop, logprobs, reasoning } = request
  if (stop !== undefined && stop.length > MAX_STOPS) {
    warnings.lost('stop', `only the first ${MAX_STOPS} sequences are sent`)
  }
  const rest = objectOf(own)
  const thinking = {
    ...objectOf(rest.thinkingConfig),
    ...(reasoning && encodeThinking(reasoning, request, warnings)),
  }
  const config = bodyOf({
    ...rest,
    maxOutputTokens: fitLimit(request, warnings),
    temperature: request.temperature,
    topP: request.topP,
    topK: request.topK,
    seed: request.seed,
    stopSequences: stop?.slice(0, MAX_STOPS),
    presencePenalty: request.presencePenalty,
    frequencyPenalty: request.frequencyPenalty,
    candidateCount: request.choices,
    responseLogprobs: logprobs === undefined ? undefined : true,
    logprobs: logprobs === 0 ? undefined : logprobs,
    responseModalities: request.modalities?.map(each => each.toUpperCase()),
    ...encodeOutput(request, warnings),
    thinkingConfig: Object.keys(thinking).length === 0 ? undefined : thinking,
  })
  return Object.keys(config).length === 0 ? undefined : config
}

function fitLimit({ model, maxTokens }: ChatRequest, warnings: Warnings): number | undefined {
  const most = geminiGeneration(model).maxOutputTokens
  if (maxTokens === undefined || most === undefined || maxTokens <= most) return maxTokens
  warnings.lost('max_tokens', `was lowered to ${most}, the maximum of the model`)
  return most
}

function encodeOutput({ output }: ChatRequest, warnings: Warnings): JsonObject {
  if (output === undefined) return {}
  const json = { responseMimeType: 'application/json' }
  if (output.type === 'json') return json
  return { ...json, responseJsonSchema: toVendorSchema(output.schema, 'response_format.schema', warnings) }
}

const TIERS: Readonly<Record<string, string>> = {
  flex: 'flex',
  priority: 'priority',
  standard: 'standard',
  default: 'standard',
}

/** Efforts that the newer models accept; higher ones map to the highest of them. */
const LEVELS: Readonly<Record<string, string>> = {
  minimal: 'MINIMAL',
  low: 'LOW',
  medium: 'MEDIUM',
  high: 'HIGH',
  xhigh: 'HIGH',
  max: 'HIGH',
}

function encodeThinking(
  reasoning: Reasoning,
  { model, maxTokens }: ChatRequest,
  warnings: Warnings,
): JsonObject | undefined {
  const { effort, budget, isAdaptive, summary } = reasoning
  const generation = geminiGeneration(model)
  if (generation.thinking === 'none') {
    if (effort !== 'none') warnings.lost('reasoning', 'the model does not support reasoning')
    return undefined
  }
  if (effort === 'none') return withoutThoughts(generation, warnings)
  const visibility = { includeThoughts: summary !== 'none' }
  // The vendor rejects an effort together with a budget; the budget is more precise.
  if (budget !== undefined) return { ...visibility, thinkingBudget: fitBudget(budget, generation, warnings) }
  if (effort === undefined) return isAdaptive ? { ...visibility, thinkingBudget: -1 } : visibility
  if (generation.thinking === 'level')
    return { ...visibility, thinkingLevel: levelOf(effort, generation, warnings) }
  const effortBudget = budgetOf(effort)
  if (effortBudget === undefined) {
    warnings.lost('reasoning_effort', 'is not known to this vendor and was left out')
    return visibility
  }
  // Thinking counts against the output limit, and the answer needs room in it too.
  const { min, max } = generation.budget
  const room = maxTokens === undefined ? max : Math.floor(maxTokens / 2)
  return { ...visibility, thinkingBudget: Math.max(Math.min(effortBudget, max, room), min, 1) }
}

/** The vendor rejects budgets beyond a model's maximum, and models of other vendors allow more. */
function fitBudget(budget: number, generation: GeminiGeneration, warnings: Warnings): number {
  const { min, max } = generation.budget
  const fitted = Math.max(Math.min(budget, max), min)
  if (fitted !== budget)
    warnings.lost('reasoning.budget', `was changed to ${fitted} tokens, within the range of the model`)
  return fitted
}

/** Some models always think; they get their minimum budget. */
function withoutThoughts(generation: GeminiGeneration, warnings: Warnings): JsonObject {
  const { thinking, budget, leastLevel } = generation
  const takesLevels = thinking === 'level'
  if (!takesLevels && budget.min === 0) return { thinkingBudget: 0 }
  warnings.lost('reasoning_effort', 'thinking cannot be turned off for this model: the lowest amount is sent')
  return takesLevels ? { thinkingLevel: leastLevel } : { thinkingBudget: budget.min }
}

function levelOf(effort: string, { leastLevel }: GeminiGeneration, warnings: Warnings): string {
  const level = LEVELS[effort]
  if (level === undefined)
    warnings.lost('reasoning_effort', 'is not known to this vendor: high is sent instead')
  if (effort === 'xhigh' || effort === 'max')
    warnings.lost('reasoning_effort', 'was lowered to high, the maximum')
  const isTooLittle = level === 'MINIMAL' && leastLevel !== 'MINIMAL'
  return isTooLittle ? leastLevel : (level ?? 'HIGH')
}
