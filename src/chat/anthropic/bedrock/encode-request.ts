import { isObject, type JsonObject } from '../../../domain/json-value.ts'
import { type BedrockMaker, bedrockMaker } from '../../../models/bedrock-makers.ts'
import { claudeGeneration } from '../../../models/generation.ts'
import { withoutCacheMarks } from '../../hub/cache.ts'
import { withEarlierImages } from '../../hub/earlier-images.ts'
import { bodyOf, ownExtras } from '../../hub/fields.ts'
import type { EncodedRequest, EncodeOptions } from '../../hub/format.ts'
import type { ChatRequest } from '../../hub/hub.ts'
import { effortOf } from '../../hub/reasoning.ts'
import { tierIn } from '../../hub/service-tier.ts'
import { withoutCustomTools } from '../../hub/tools/custom-tools.ts'
import { allowedFunctions, calledTools, isNamed } from '../../hub/tools/tool-choice.ts'
import { warnBeyondText, warnOfDescription, warnUnsupported } from '../../hub/unsupported.ts'
import { createChatWarnings, type Warnings } from '../../hub/warnings.ts'
import { encodeConversation } from '../messages/conversation.ts'
import { fitLimit, fitStops } from '../messages/limit.ts'
import { fitSampling, type Sampling } from '../messages/sampling.ts'
import { enforcedSchema } from '../messages/schema.ts'
import { encodeThinking } from '../messages/thinking.ts'
import { cachePoint, encodeBlocks, FORMAT, type Writing } from './content.ts'
import { effortFields, topKFields } from './maker-fields.ts'

/** The URL contains the model and the stream flag. */
export function encodeRequest(original: ChatRequest, options: EncodeOptions = {}): EncodedRequest {
  const warnings = createChatWarnings(original, FORMAT)
  const maker = bedrockMaker(original.model)
  const conversation = withEarlierImages(original, warnings)
  const request = withoutCustomTools(
    maker.hasCache ? conversation : withoutCacheMarks(conversation, warnings),
    warnings,
  )
  warnings.foreign('', request)
  const unsupported = ['seed', 'presencePenalty', 'frequencyPenalty', 'logprobs', 'verbosity'] as const
  warnUnsupported(request, [...unsupported, 'audio', 'safety', 'user'], warnings)
  warnBeyondText(request, warnings)
  warnOfDescription(request, warnings)
  const { system, messages } = encodeMessages(request, warnings)
  const tools = encodeTools(request, { maker, warnings })
  const parameters = encodeParameters(request, { maker, options, warnings })
  const { additionalModelRequestFields: own, ...extras } = ownExtras(FORMAT, request)
  const additional = { ...parameters.additional, ...tools.additional, ...(isObject(own) && own) }
  const body = bodyOf({
    ...extras,
    messages,
    system: system.length === 0 ? undefined : system,
    inferenceConfig: Object.keys(parameters.inference).length === 0 ? undefined : parameters.inference,
    toolConfig: tools.config,
    outputConfig: encodeOutput(request, warnings),
    serviceTier: encodeTier(request.serviceTier, warnings),
    additionalModelRequestFields: Object.keys(additional).length === 0 ? undefined : additional,
  })
  return { body, warnings: warnings.list() }
}

// --- Messages -----------------------------------------------------------------------------------------------------

/** Roles must alternate, and instructions come first. */
function encodeMessages(request: ChatRequest, warnings: Warnings) {
  const writing: Writing = { warnings, documents: new Set() }
  const { system, turns } = encodeConversation(request, {
    warnings,
    blocksOf: ({ content }, path) => encodeBlocks(content, path, writing),
    instructionsOf: (blocks, path) => instructions(blocks, path, warnings),
    textOf: text => ({ text }),
    takesSchemas: claudeGeneration(request.model).takesSchemas,
  })
  return { system, messages: turns.map(({ role, content }) => ({ role, content })) }
}

const INSTRUCTIONS = ['text', 'cachePoint', 'guardContent']

function instructions(blocks: readonly JsonObject[], path: string, warnings: Warnings) {
  const instructionBlocks = blocks.filter(block => INSTRUCTIONS.some(name => name in block))
  if (instructionBlocks.length < blocks.length)
    warnings.lostContent(path, 'media in instructions cannot be sent')
  return instructionBlocks
}

// --- Tools --------------------------------------------------------------------------------------------------------

type ToolContext = { readonly maker: BedrockMaker; readonly warnings: Warnings }

/**
 * The vendor rejects calls and results in the conversation if the request has no tools. In that case the called tools are
 * added.
 */
function encodeTools(request: ChatRequest, { maker, warnings }: ToolContext) {
  const allowed = allowedFunctions(
    isNamed(request.toolChoice) ? { ...request, toolChoice: { mode: 'auto' } } : request,
    warnings,
  )
  const called = calledTools(request.messages)
  const isForbidden = request.toolChoice?.mode === 'none'
  if (isForbidden && called.length > 0 && allowed.length > 0) {
    warnings.lost('tool_choice', 'tool calls cannot be disabled after earlier ones')
  }
  const offered = isForbidden && called.length === 0 ? [] : allowed
  if (offered.some(tool => tool.strict)) {
    warnings.unsupported('tools.strict')
  }
  const specs = offered.flatMap(tool => [
    toolSpec(tool.name, tool.description, tool.parameters),
    ...('cache' in tool && maker.hasCache ? [cachePoint(tool.cache)] : []),
  ])
  const tools = specs.length > 0 ? specs : called.map(name => toolSpec(name))
  if (tools.length === 0) return { additional: {} }
  return {
    config: { tools, ...encodeToolChoice(request) },
    additional: encodeSerial(request, maker, warnings),
  }
}

const toolSpec = (name: string, description?: string, parameters?: JsonObject): JsonObject => ({
  toolSpec: bodyOf({
    name,
    description: description || undefined,
    inputSchema: { json: { type: 'object', ...parameters } },
  }),
})

function encodeToolChoice({ tools = [], toolChoice }: ChatRequest): JsonObject {
  if (tools.length === 0 || toolChoice?.mode !== 'required') return {}
  return { toolChoice: isNamed(toolChoice) ? { tool: { name: toolChoice.only?.[0] } } : { any: {} } }
}

/** Only Claude accepts serial calls, in its own field. */
function encodeSerial(
  { parallelTools, tools = [], toolChoice }: ChatRequest,
  { isClaude }: BedrockMaker,
  warnings: Warnings,
): JsonObject {
  if (parallelTools !== false || tools.length === 0) return {}
  const mode = toolChoice?.mode ?? 'auto'
  if (isClaude && mode === 'auto') {
    return { tool_choice: { type: 'auto', disable_parallel_tool_use: true } }
  }
  if (mode !== 'none') warnings.lost('parallel_tool_calls', 'parallel tool calls cannot be disabled')
  return {}
}

// --- Parameters ---------------------------------------------------------------------------------------------------

type ParameterContext = ToolContext & { readonly options: EncodeOptions }
type ParameterFields = { readonly inference: JsonObject; readonly additional: JsonObject }

function encodeParameters(
  request: ChatRequest,
  { maker, options, warnings }: ParameterContext,
): ParameterFields {
  const maxTokens = maker.isClaude ? fitLimit(request, options, warnings) : request.maxTokens
  const thinking = maker.isClaude
    ? encodeThinking(request, { home: FORMAT, maxTokens: maxTokens ?? 0, warnings })
    : { isOn: false }
  const { temperature, topP, topK } = maker.isClaude
    ? fitSampling(request, thinking.isOn, warnings)
    : limitTemperature(request, warnings)
  const stopSequences = fitStops(request.stop, warnings)
  const inference = bodyOf({ maxTokens, temperature, topP, stopSequences })
  const config = thinking.config ?? {}
  const additional = bodyOf({
    ...encodeTopK(topK, maker, warnings),
    ...(maker.isClaude ? {} : encodeEffort(request, maker, warnings)),
    thinking: thinking.body,
    output_config: Object.keys(config).length === 0 ? undefined : config,
  })
  return { inference, additional }
}

/** Limits the temperature to 1, the highest that all makers accept. */
function limitTemperature({ temperature, topP, topK }: ChatRequest, warnings: Warnings): Sampling {
  if (temperature !== undefined && temperature > 1)
    warnings.lost('temperature', 'was lowered to 1, the maximum')
  return { temperature: temperature && Math.min(temperature, 1), topP, topK }
}

function encodeTopK(topK: number | undefined, maker: BedrockMaker, warnings: Warnings): JsonObject {
  if (topK === undefined) return {}
  const fields = topKFields(maker, topK)
  if (fields === undefined) warnings.unsupported('top_k')
  return fields ?? {}
}

function encodeEffort({ reasoning }: ChatRequest, maker: BedrockMaker, warnings: Warnings): JsonObject {
  if (reasoning === undefined) return {}
  const { effort, budget } = reasoning
  const effortName = effort ?? (budget === undefined ? undefined : effortOf(budget))
  const fields = effortName === undefined ? undefined : effortFields(maker, effortName)
  if (fields === undefined) {
    warnings.lost('reasoning', 'has no counterpart for this model and was left out')
    return {}
  }
  if (effort === undefined) {
    warnings.lost('reasoning.budget', `a budget of ${budget} tokens is sent as the effort ${effortName}`)
  }
  return fields
}

/** The schema is JSON text in this format. */
function encodeOutput({ output, model }: ChatRequest, warnings: Warnings): JsonObject | undefined {
  if (output?.type !== 'schema' || !claudeGeneration(model).takesSchemas) return undefined
  const schema = enforcedSchema(output.schema, 'response_format.schema', warnings)
  const jsonSchema = { schema: JSON.stringify(schema), name: output.name ?? 'answer' }
  return { textFormat: { type: 'json_schema', structure: { jsonSchema } } }
}

const TIERS: Readonly<Record<string, string>> = {
  auto: 'default',
  default: 'default',
  standard: 'default',
  flex: 'flex',
  priority: 'priority',
}

function encodeTier(tier: string | undefined, warnings: Warnings): JsonObject | undefined {
  const type = tierIn(TIERS, tier, warnings)
  return type === undefined ? undefined : { type }
}
