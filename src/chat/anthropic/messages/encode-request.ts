import { isObject, type JsonObject } from '../../../domain/json-value.ts'
import { claudeGeneration } from '../../../models/generation.ts'
import { withEarlierImages } from '../../hub/earlier-images.ts'
import { bodyOf, ownExtras } from '../../hub/fields.ts'
import type { EncodedRequest, EncodeOptions } from '../../hub/format.ts'
import type { ChatRequest, Tool } from '../../hub/hub.ts'
import { plainOrList } from '../../hub/plain-text.ts'
import { tierIn } from '../../hub/service-tier.ts'
import { withoutCustomTools } from '../../hub/tools/custom-tools.ts'
import { calledTools, HOSTED_TOOL, isNamed } from '../../hub/tools/tool-choice.ts'
import { warnBeyondText, warnOfDescription, warnUnsupported } from '../../hub/unsupported.ts'
import { createChatWarnings, type Warnings } from '../../hub/warnings.ts'
import { cacheControl, encodeBlocks, FORMAT } from './content.ts'
import { encodeConversation } from './conversation.ts'
import { fitLimit, fitStops } from './limit.ts'
import { fitSampling } from './sampling.ts'
import { createStrictness, enforcedSchema } from './schema.ts'
import { encodeThinking } from './thinking.ts'

/** Parameters that this format has no field for. */
const UNSUPPORTED = [
  'seed',
  'presencePenalty',
  'frequencyPenalty',
  'logprobs',
  'verbosity',
  'audio',
  'safety',
] as const

export function encodeRequest(original: ChatRequest, options: EncodeOptions = {}): EncodedRequest {
  const warnings = createChatWarnings(original, FORMAT)
  const request = withCalledTools(withoutCustomTools(withEarlierImages(original, warnings), warnings))
  warnings.foreign('', request)
  warnUnsupported(request, UNSUPPORTED, warnings)
  warnBeyondText(request, warnings)
  warnOfDescription(request, warnings)
  const maxTokens = fitLimit(request, options, warnings)
  const thinking = encodeThinking(request, { home: FORMAT, maxTokens, warnings })
  const { system, messages } = encodeMessages(request, warnings)
  const own = ownExtras(FORMAT, request)
  const ownConfig = isObject(own.output_config) ? own.output_config : {}
  const config = { ...ownConfig, ...thinking.config, ...encodeOutput(request, warnings) }
  const body = bodyOf({
    ...own,
    model: request.model,
    max_tokens: maxTokens,
    messages,
    system,
    stream: request.stream ? true : undefined,
    tools: encodeTools(request, warnings),
    tool_choice: encodeToolChoice(request),
    ...encodeSampling(request, thinking.isOn, warnings),
    stop_sequences: fitStops(request.stop, warnings),
    thinking: own.thinking ?? thinking.body,
    output_config: Object.keys(config).length === 0 ? undefined : config,
    metadata: request.user === undefined ? undefined : { user_id: request.user },
    service_tier: tierIn(TIERS, request.serviceTier, warnings),
  })
  return { body, warnings: warnings.list() }
}

// --- Messages -----------------------------------------------------------------------------------------------------

function encodeMessages(request: ChatRequest, warnings: Warnings) {
  const { system, turns } = encodeConversation(request, {
    warnings,
    blocksOf: ({ content }, path) => encodeBlocks(content, path, warnings),
    textOf: text => ({ type: 'text', text }),
    takesSchemas: claudeGeneration(request.model).takesSchemas,
  })
  return {
    system: system.length === 0 ? undefined : plainOrList(system),
    messages: turns.map(({ role, content, first }) => ({
      ...(first && ownExtras(FORMAT, first)),
      role,
      content: plainOrList(content),
    })),
  }
}

// --- Tools --------------------------------------------------------------------------------------------------------

/**
 * The vendor rejects calls in the conversation if the request has no tools. The called tools are added, but may not be
 * called.
 */
export function withCalledTools(request: ChatRequest): ChatRequest {
  if (request.tools !== undefined && request.tools.length > 0) return request
  const names = calledTools(request.messages)
  if (names.length === 0) return request
  const { parallelTools: _, ...rest } = request
  const tools = names.map((name): Tool => ({ type: 'function', name, parameters: { type: 'object' } }))
  return { ...rest, tools, toolChoice: { mode: 'none' } }
}

function encodeTools(
  { tools, toolChoice, model }: ChatRequest,
  warnings: Warnings,
): readonly JsonObject[] | undefined {
  const only = toolChoice?.only
  const canBeStrict = createStrictness()
  const { takesSchemas } = claudeGeneration(model)
  const isAllowed = (tool: Tool) =>
    only === undefined || isNamed(toolChoice) || (tool.type !== 'vendor' && only.includes(tool.name))
  return tools?.filter(isAllowed).flatMap((tool, index) => {
    if (tool.type === 'vendor' && tool.format === FORMAT) return [tool.value]
    if (tool.type !== 'function') {
      warnings.unsupported(`tools[${index}]`, HOSTED_TOOL)
      return []
    }
    warnings.foreign(`tools[${index}].`, tool)
    const { name, description, parameters, strict, cache } = tool
    const schema = { type: 'object', ...parameters }
    const isStrict = strict === true && takesSchemas && canBeStrict(schema)
    if (strict && !isStrict) warnings.lost(`tools[${index}].strict`, 'cannot be guaranteed and was left out')
    return [
      bodyOf({
        ...ownExtras(FORMAT, tool),
        name,
        description,
        input_schema: isStrict ? enforcedSchema(schema, `tools[${index}].parameters`, warnings) : schema,
        strict: isStrict || (takesSchemas && strict === false ? false : undefined),
        ...cacheControl(cache),
      }),
    ]
  })
}

function encodeToolChoice({ tools = [], toolChoice, parallelTools }: ChatRequest): JsonObject | undefined {
  if (tools.length === 0) return undefined
  // Serial calls are part of the tool choice, so a choice is always sent.
  const serial = parallelTools === false ? { disable_parallel_tool_use: true } : {}
  switch (toolChoice?.mode) {
    case 'none':
      return { type: 'none' }
    case 'required':
      return isNamed(toolChoice)
        ? { type: 'tool', name: toolChoice.only?.[0], ...serial }
        : { type: 'any', ...serial }
    case 'auto':
      return { type: 'auto', ...serial }
    default:
      return parallelTools === false ? { type: 'auto', ...serial } : undefined
  }
}

// --- Parameters ---------------------------------------------------------------------------------------------------

function encodeSampling(request: ChatRequest, isThinking: boolean, warnings: Warnings): JsonObject {
  const { temperature, topP, topK } = fitSampling(request, isThinking, warnings)
  return { temperature, top_p: topP, top_k: topK }
}

const TIERS: Readonly<Record<string, string>> = {
  auto: 'auto',
  standard_only: 'standard_only',
  default: 'standard_only',
}

function encodeOutput({ output, model }: ChatRequest, warnings: Warnings): JsonObject {
  if (output?.type !== 'schema' || !claudeGeneration(model).takesSchemas) return {}
  const schema = enforcedSchema(output.schema, 'response_format.schema', warnings)
  return { format: { type: 'json_schema', schema } }
}
