import { isObject, type JsonObject } from '../../../domain/json-value.ts'
import { withoutCacheMarks } from '../../hub/cache.ts'
import { withEarlierImages } from '../../hub/earlier-images.ts'
import { bodyOf, ownExtras } from '../../hub/fields.ts'
import type { EncodedRequest } from '../../hub/format.ts'
import type {
  ChatRequest,
  Message,
  Output,
  Part,
  ReasoningPart,
  TextPart,
  Tool,
  ToolChoice,
} from '../../hub/hub.ts'
import { plainOrList } from '../../hub/plain-text.ts'
import { nativeSignature } from '../../hub/signature.ts'
import { fitId, type IdRule } from '../../hub/tools/call-id.ts'
import { HOSTED_TOOL } from '../../hub/tools/tool-choice.ts'
import { warnBeyondText, warnUnsupported } from '../../hub/unsupported.ts'
import { createChatWarnings, type Warnings } from '../../hub/warnings.ts'
import { sharedFields } from '../chat-completions/encode-request.ts'
import { canThink, fitEffort, fitLimits, fitSampling } from '../parameters.ts'
import { outputStrictnessOf, strictnessOf } from '../strictness.ts'
import { callItem, encodeInput, FORMAT, grouped, outputText, reasoningItem, splitExtras } from './content.ts'
import { ENCRYPTED, LOGPROBS } from './decode-request.ts'

/** Parameters that this format has no field for. */
const UNSUPPORTED = [
  'topK',
  'seed',
  'stop',
  'presencePenalty',
  'frequencyPenalty',
  'audio',
  'safety',
] as const

/** The vendor rejects longer ids of calls and users. */
const USER_RULE: IdRule = { maxLength: 64, pattern: /^/ }
const ID_RULE: IdRule = { maxLength: 64, pattern: /^/ }

export function encodeRequest(original: ChatRequest): EncodedRequest {
  const warnings = createChatWarnings(original, FORMAT)
  const marked = withoutCacheMarks(withEarlierImages(original, warnings), warnings)
  const effort = fitEffort(marked, warnings)
  const request = fitLimits(fitSampling(withoutIdleThoughts(marked), effort, warnings), warnings)
  const { extras, shared } = sharedFields(request, 'openai-chat')
  warnings.foreign('', { extras })
  warnUnsupported(request, UNSUPPORTED, warnings)
  warnBeyondText(request, warnings)
  const { instructions, rest } = takeInstructions(request.messages)
  const own = ownExtras(FORMAT, request)
  const include = [
    ...(Array.isArray(own.include) ? own.include : []),
    ...(wantsThoughts(request) ? [ENCRYPTED] : []),
    ...(request.logprobs === undefined ? [] : [LOGPROBS]),
  ]
  const ownText = objectIn(own, 'text')
  const text = bodyOf({
    ...ownText,
    format: encodeOutput(request.output) ?? ownText.format,
    verbosity: request.verbosity,
  })
  const reasoning = { ...objectIn(own, 'reasoning'), ...encodeReasoning(request, effort) }
  const body = bodyOf({
    // The gateway cannot read stored responses, so the vendor shall not store them.
    store: false,
    ...shared,
    ...own,
    model: request.model,
    instructions,
    input: rest.flatMap(({ message, index }) => encodeMessage(message, `messages[${index}]`, warnings)),
    stream: request.stream ? true : undefined,
    tools: encodeTools(request.tools, warnings),
    tool_choice: encodeToolChoice(request.toolChoice, request.tools) ?? own.tool_choice,
    parallel_tool_calls: request.parallelTools,
    max_output_tokens: request.maxTokens,
    temperature: request.temperature,
    top_p: request.topP,
    top_logprobs: request.logprobs || undefined,
    text: Object.keys(text).length === 0 ? undefined : text,
    reasoning: Object.keys(reasoning).length === 0 ? undefined : reasoning,
    include: include.length === 0 ? undefined : include,
    user: request.user && fitId(request.user, USER_RULE),
    service_tier: request.serviceTier,
  })
  return { body, warnings: warnings.list() }
}

function objectIn(extras: JsonObject, name: string): JsonObject {
  const value = extras[name]
  return isObject(value) ? value : {}
}

/** Models without reasoning reject all reasoning parameters. */
function withoutIdleThoughts(request: ChatRequest): ChatRequest {
  if (canThink(request.model)) return request
  const { reasoning, ...rest } = request
  return rest
}

/** Requests with reasoning disabled are rejected in the same way. */
function wantsThoughts({ reasoning }: ChatRequest): boolean {
  if (reasoning === undefined) return false
  const isThinking =
    (reasoning.effort !== undefined && reasoning.effort !== 'none') || reasoning.budget !== undefined
  return reasoning.isReturned === true || isThinking
}

// --- Messages -----------------------------------------------------------------------------------------------------

type IndexedMessage = { readonly message: Message; readonly index: number }

/** The first system message, if it is plain text, has a field of its own. */
function takeInstructions(messages: readonly Message[]): {
  readonly instructions: string | undefined
  readonly rest: readonly IndexedMessage[]
} {
  const placed = messages.map((message, index) => ({ message, index }))
  const [first] = messages
  const [part, ...more] = first?.content ?? []
  const isPlain = part?.type === 'text' && more.length === 0 && Object.keys(part).length === 2
  const isInstruction = first?.role === 'system' && Object.keys(first).length === 2
  if (!isPlain || !isInstruction) return { instructions: undefined, rest: placed }
  return { instructions: (part as TextPart).text, rest: placed.slice(1) }
}

function encodeMessage(message: Message, path: string, warnings: Warnings): readonly JsonObject[] {
  warnings.foreign(`${path}.`, message)
  if (message.name !== undefined) warnings.unsupported(`${path}.name`)
  if (message.role === 'assistant') return encodeAssistant(message.content, path, warnings)
  if (message.role === 'tool') return encodeResults(message.content, path, warnings)
  const content = encodeInputs(message.content, path, warnings)
  return [{ ...ownExtras(FORMAT, message), role: message.role, content: plainOrList(content, 'input_text') }]
}

const encodeInputs = (parts: readonly Part[], path: string, warnings: Warnings): readonly JsonObject[] =>
  parts
    .map((part, index) => encodeInput(part, `${path}.content[${index}]`, warnings))
    .filter(part => part !== undefined)

function encodeAssistant(parts: readonly Part[], path: string, warnings: Warnings): readonly JsonObject[] {
  return grouped(parts).flatMap(group => {
    const [first] = group
    if (first === undefined) return []
    switch (first.type) {
      case 'text':
      case 'refusal':
        return [encodeMessageItem(group, path, warnings)]
      case 'reasoning':
        return encodeThoughts(group as readonly ReasoningPart[], path, warnings)
      case 'toolCall':
        warnings.foreign(`${path}.`, first)
        if (first.signature !== undefined) {
          warnings.lost(path, 'the signature that another vendor gave to a tool call was left out')
        }
        return [{ ...ownExtras(FORMAT, first), ...callItem({ ...first, id: fitId(first.id, ID_RULE) }) }]
      default:
        if (first.type === 'vendor' && first.format === FORMAT) return [first.value]
        warnings.lostPart(`${path}.content[${parts.indexOf(first)}]`, first)
        return []
    }
  })
}

function encodeMessageItem(group: readonly Part[], path: string, warnings: Warnings): JsonObject {
  const content = group.map(part => {
    if (part.type !== 'vendor') warnings.foreign(`${path}.`, part)
    if (part.type === 'refusal') return { ...splitExtras(part).own, type: 'refusal', refusal: part.text }
    const textPart = part as TextPart
    if (textPart.signature !== undefined) warnings.lost(path, 'the signature of a text was left out')
    const { annotations, ...outputFields } = outputText(textPart)
    return textPart.citations === undefined ? outputFields : { ...outputFields, annotations }
  })
  const { item } = splitExtras(group[0] as Part)
  return { ...item, role: 'assistant', content: plainOrList(content, 'output_text') }
}

/** The vendor accepts reasoning with its own signature only; without one it would look up the id. */
function encodeThoughts(
  group: readonly ReasoningPart[],
  path: string,
  warnings: Warnings,
): readonly JsonObject[] {
  const isOurs = group.some(part => nativeSignature(FORMAT, part.encrypted ?? part.signature) !== undefined)
  if (isOurs) return [reasoningItem(group, group[0]?.id)]
  if (group.some(part => part.text !== '' || part.signature !== undefined || part.encrypted !== undefined)) {
    warnings.lost(path, 'reasoning that this vendor did not encrypt was left out')
  }
  return []
}

function encodeResults(parts: readonly Part[], path: string, warnings: Warnings): readonly JsonObject[] {
  return parts.flatMap((part, index) => {
    if (part.type !== 'toolResult') return []
    const at = `${path}.content[${index}]`
    warnings.foreign(`${at}.`, part)
    if (part.isError) warnings.unsupported(`${at}.is_error`)
    return [
      {
        ...ownExtras(FORMAT, part),
        type: part.isCustom ? 'custom_tool_call_output' : 'function_call_output',
        call_id: fitId(part.callId, ID_RULE),
        output: plainOrList(encodeInputs(part.content, at, warnings), 'input_text'),
      },
    ]
  })
}

// --- Tools and parameters -----------------------------------------------------------------------------------------

function encodeTools(
  tools: readonly Tool[] | undefined,
  warnings: Warnings,
): readonly JsonObject[] | undefined {
  return tools?.flatMap((tool, index) => {
    if (tool.type === 'vendor') {
      if (tool.format === FORMAT) return [tool.value]
      warnings.unsupported(`tools[${index}]`, HOSTED_TOOL)
      return []
    }
    warnings.foreign(`tools[${index}].`, tool)
    const { type, name, description } = tool
    const own = ownExtras(FORMAT, tool)
    if (tool.type === 'custom') return [bodyOf({ ...own, type, name, description, format: tool.grammar })]
    // Schemas are strict by default in this format, and most are not written for that.
    const { parameters = { type: 'object', properties: {} } } = tool
    const strict = strictnessOf(tool, `tools[${index}]`, warnings) ?? false
    return [bodyOf({ ...own, type, name, description, parameters, strict })]
  })
}

function encodeToolChoice(choice: ToolChoice | undefined, tools: readonly Tool[] = []): unknown {
  if (choice?.only === undefined) return choice?.mode
  const references = choice.only.map(name => {
    const isCustom = tools.some(tool => tool.type === 'custom' && tool.name === name)
    return { type: isCustom ? 'custom' : 'function', name }
  })
  if (choice.mode === 'required' && references.length === 1) return references[0]
  return { type: 'allowed_tools', mode: choice.mode, tools: references }
}

function encodeOutput(output: Output | undefined): JsonObject | undefined {
  if (output === undefined) return undefined
  if (output.type === 'json') return { type: 'json_object' }
  const { schema, name = 'answer', description } = output
  const strict = outputStrictnessOf(output)
  return bodyOf({ type: 'json_schema', name, description, schema, strict })
}

function encodeReasoning({ reasoning = {} }: ChatRequest, effort: string | undefined): JsonObject {
  const { summary } = reasoning
  return bodyOf({ effort, summary: summary === 'none' ? undefined : summary })
}
