import { isObject, type JsonObject } from '../../../domain/json-value.ts'
import { withoutCacheMarks } from '../../hub/cache.ts'
import { withEarlierImages } from '../../hub/earlier-images.ts'
import { bodyOf, ownExtras } from '../../hub/fields.ts'
import type { EncodedRequest, EncodeOptions } from '../../hub/format.ts'
import type {
  ChatRequest,
  Message,
  Output,
  Part,
  ReasoningPart,
  Tool,
  ToolCallPart,
  ToolChoice,
} from '../../hub/hub.ts'
import { isPlainText, plainOrList } from '../../hub/plain-text.ts'
import { fitId, type IdRule } from '../../hub/tools/call-id.ts'
import { withoutCustomTools } from '../../hub/tools/custom-tools.ts'
import { HOSTED_TOOL } from '../../hub/tools/tool-choice.ts'
import { byType, encodeResultMessages } from '../../hub/tools/tool-results.ts'
import { warnUnsupported } from '../../hub/unsupported.ts'
import { createChatWarnings, type Warnings } from '../../hub/warnings.ts'
import { fitEffort, fitLimits, fitSampling } from '../parameters.ts'
import { outputStrictnessOf, strictnessOf } from '../strictness.ts'
import { cacheControl, encodePart, encodeParts, encodeReasoning, encodeToolCall, FORMAT } from './content.ts'
import { fitDialect } from './dialect.ts'
import { encodeGrammar } from './grammar.ts'

/** Fields with the same meaning in the vendor's Responses format. */
const SHARED_WITH_RESPONSES = [
  'metadata',
  'moderation',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'safety_identifier',
  'store',
] as const

/** The vendor rejects longer ids of calls and users. */
const USER_RULE: IdRule = { maxLength: 64, pattern: /^/ }
const ID_RULE: IdRule = { maxLength: 40, pattern: /^/ }

export function encodeRequest(original: ChatRequest, options: EncodeOptions = {}): EncodedRequest {
  const warnings = createChatWarnings(original, FORMAT)
  const { dialect } = options
  const conversation = withEarlierImages(original, warnings)
  const offered = dialect === undefined ? conversation : withoutCustomTools(conversation, warnings)
  const marked = options.keepCacheMarks ? offered : withoutCacheMarks(offered, warnings)
  if (marked.reasoning?.summary !== undefined)
    warnings.lost('reasoning.summary', 'is not supported and was left out')
  const effort = fitEffort(marked, warnings)
  const request = fitLimits(fitSampling(marked, effort, warnings), warnings)
  const { extras, shared } = sharedFields(request, 'responses')
  warnings.foreign('', { extras })
  warnUnsupported(request, ['topK', 'safety'], warnings)
  const own = ownExtras(FORMAT, request)
  const ownOptions = isObject(own.stream_options) ? own.stream_options : {}
  const body = bodyOf({
    ...shared,
    ...own,
    model: request.model,
    messages: encodeMessages(request.messages, options, warnings),
    stream: request.stream ? true : undefined,
    // Billing needs the usage even if the client does not.
    stream_options: request.stream ? { ...ownOptions, include_usage: true } : undefined,
    ...encodeToolFields(request, warnings),
    max_completion_tokens: request.maxTokens,
    temperature: request.temperature,
    top_p: request.topP,
    seed: request.seed,
    stop: request.stop,
    presence_penalty: request.presencePenalty,
    frequency_penalty: request.frequencyPenalty,
    n: request.choices,
    logprobs: request.logprobs === undefined ? undefined : true,
    top_logprobs: request.logprobs || undefined,
    response_format: encodeOutput(request.output) ?? own.response_format,
    reasoning_effort: effort,
    verbosity: request.verbosity,
    modalities: request.modalities,
    audio: request.audio,
    user: request.user && fitId(request.user, USER_RULE),
    service_tier: request.serviceTier,
  })
  const encodedBody = dialect === undefined ? body : fitDialect(body, dialect, warnings)
  return { body: encodedBody, warnings: warnings.list() }
}

/** Takes the fields that two formats of one vendor share from the extras of the other. */
export function sharedFields(request: ChatRequest, other: string) {
  const otherExtras = request.extras?.[other]
  if (otherExtras === undefined) return { extras: request.extras ?? {}, shared: {} }
  const isShared = (name: string) => (SHARED_WITH_RESPONSES as readonly string[]).includes(name)
  const entries = Object.entries(otherExtras)
  return {
    extras: { ...request.extras, [other]: Object.fromEntries(entries.filter(([name]) => !isShared(name))) },
    shared: Object.fromEntries(entries.filter(([name]) => isShared(name))),
  }
}

function encodeMessages(
  messages: readonly Message[],
  options: EncodeOptions,
  warnings: Warnings,
): readonly JsonObject[] {
  return messages.flatMap((message, index) => {
    const path = `messages[${index}]`
    warnings.foreign(`${path}.`, message)
    if (message.role === 'tool') return encodeResults(message, { path, options, warnings })
    if (message.role === 'assistant') return [encodeAssistant(message, { path, options, warnings })]
    return [
      bodyOf({
        ...ownExtras(FORMAT, message),
        role: message.role,
        content: plainOrList(encodeParts(message.content, path, warnings)),
        name: message.name,
      }),
    ]
  })
}

type Writing = { readonly path: string; readonly options: EncodeOptions; readonly warnings: Warnings }

/** Parts of an assistant message that have fields of their own beside `content`. */
const IN_OWN_FIELDS: readonly Part['type'][] = ['reasoning', 'toolCall', 'refusal']

function encodeAssistant(message: Message, { path, options, warnings }: Writing): JsonObject {
  const thoughts = message.content.filter((part): part is ReasoningPart => part.type === 'reasoning')
  const calls = message.content.filter((part): part is ToolCallPart => part.type === 'toolCall')
  for (const part of [...thoughts, ...calls]) warnings.foreign(`${path}.`, part)
  const refusal = message.content.filter(part => part.type === 'refusal').map(part => part.text)
  const encoded = message.content.flatMap((part, index): readonly JsonObject[] => {
    if (IN_OWN_FIELDS.includes(part.type)) return []
    const content = encodePart(part, `${path}.content[${index}]`, warnings)
    return content === undefined ? [] : [content]
  })
  if (options.omitReasoning && thoughts.length > 0) {
    warnings.lost('messages.reasoning_content', 'the provider accepts no reasoning of earlier turns')
  }
  return bodyOf({
    ...ownExtras(FORMAT, message),
    role: 'assistant',
    content: assistantContent(encoded, calls.length > 0),
    ...(options.omitReasoning ? {} : encodeReasoning(thoughts)),
    refusal: refusal.length === 0 ? undefined : refusal.join(''),
    name: message.name,
    tool_calls:
      calls.length === 0
        ? undefined
        : calls.map(call => encodeToolCall({ ...call, id: fitId(call.id, options.dialect?.ids ?? ID_RULE) })),
  })
}

function assistantContent(parts: readonly JsonObject[], hasCalls: boolean) {
  if (parts.length === 0) return hasCalls ? null : ''
  return parts.every(part => isPlainText(part)) ? parts.map(part => part.text).join('') : parts
}

const encodeResults = (message: Message, { path, options, warnings }: Writing): readonly JsonObject[] =>
  encodeResultMessages(message, {
    path,
    warnings,
    encode: (parts, at) => byType(encodeParts(parts, at, warnings)),
    messageOf: (result, texts) =>
      bodyOf({
        ...ownExtras(FORMAT, result),
        role: 'tool',
        tool_call_id: fitId(result.callId, options.dialect?.ids ?? ID_RULE),
        name: result.name,
        content: plainOrList(texts),
        ...cacheControl(result.cache),
      }),
    showing: content => ({ role: 'user', content }),
  })

/** Without a tool, there are none of these fields: hosts reject an empty list, and OpenAI a choice without tools. */
function encodeToolFields(
  { tools = [], toolChoice, parallelTools }: ChatRequest,
  warnings: Warnings,
): JsonObject {
  const encoded = encodeTools(tools, warnings)
  if (encoded.length === 0) return {}
  return {
    tools: encoded,
    tool_choice: encodeToolChoice(toolChoice, tools),
    parallel_tool_calls: parallelTools,
  }
}

function encodeTools(tools: readonly Tool[], warnings: Warnings): readonly JsonObject[] {
  return tools.flatMap((tool, index) => {
    if (tool.type === 'vendor') {
      if (tool.format === FORMAT) return [tool.value]
      warnings.unsupported(`tools[${index}]`, HOSTED_TOOL)
      return []
    }
    warnings.foreign(`tools[${index}].`, tool)
    const { name, description } = tool
    if (tool.type === 'custom') {
      const custom = bodyOf({ name, description, format: encodeGrammar(tool.grammar) })
      return [{ ...ownExtras(FORMAT, tool), type: 'custom', custom }]
    }
    const { parameters, cache } = tool
    const strict = strictnessOf(tool, `tools[${index}]`, warnings)
    const described = bodyOf({ name, description, parameters, strict })
    return [{ ...ownExtras(FORMAT, tool), type: 'function', function: described, ...cacheControl(cache) }]
  })
}

function encodeToolChoice(choice: ToolChoice | undefined, tools: readonly Tool[]): unknown {
  if (choice?.only === undefined) return choice?.mode
  const references = choice.only.map(name => {
    const type = tools.some(tool => tool.type === 'custom' && tool.name === name) ? 'custom' : 'function'
    return { type, [type]: { name } }
  })
  if (choice.mode === 'required' && references.length === 1) return references[0]
  return { type: 'allowed_tools', allowed_tools: { mode: choice.mode, tools: references } }
}

function encodeOutput(output: Output | undefined): JsonObject | undefined {
  if (output === undefined) return undefined
  if (output.type === 'json') return { type: 'json_object' }
  const { schema, name = 'answer', description } = output
  const strict = outputStrictnessOf(output)
  return { type: 'json_schema', json_schema: bodyOf({ name, description, schema, strict }) }
}
