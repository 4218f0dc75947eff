import type { JsonObject } from '../../domain/json-value.ts'
import { reasoningAndCallsOf } from '../hub/assistant-turn.ts'
import { withoutCacheMarks } from '../hub/cache.ts'
import { withEarlierImages } from '../hub/earlier-images.ts'
import { bodyOf, ownExtras } from '../hub/fields.ts'
import type { EncodedRequest } from '../hub/format.ts'
import type { ChatRequest, MediaPart, Message, Output, Part, ToolCallPart } from '../hub/hub.ts'
import { documentText, urlOf } from '../hub/media.ts'
import { plainOrList } from '../hub/plain-text.ts'
import { budgetOf } from '../hub/reasoning.ts'
import { withoutCustomTools } from '../hub/tools/custom-tools.ts'
import { allowedFunctions, describedFunction } from '../hub/tools/tool-choice.ts'
import { byType, encodeResultMessages } from '../hub/tools/tool-results.ts'
import { warnBeyondText, warnOfDescription, warnUnsupported } from '../hub/unsupported.ts'
import { createChatWarnings, type Warnings } from '../hub/warnings.ts'
import { FORMAT } from './content.ts'

/** The documents of all turns are sent beside the conversation. */
type Writing = { readonly warnings: Warnings; readonly documents: JsonObject[] }

export function encodeRequest(original: ChatRequest): EncodedRequest {
  const warnings = createChatWarnings(original, FORMAT)
  const request = withoutCustomTools(
    withoutCacheMarks(withEarlierImages(original, warnings), warnings),
    warnings,
  )
  warnings.foreign('', request)
  warnUnsupported(request, ['verbosity', 'audio', 'safety', 'user', 'serviceTier'], warnings)
  warnBeyondText(request, warnings)
  warnOfDescription(request, warnings)
  if (request.logprobs)
    warnings.lost('top_logprobs', 'only the probabilities of the chosen tokens are available')
  const documents: JsonObject[] = []
  const messages = request.messages.flatMap((message, index) =>
    encodeMessage(message, `messages[${index}]`, { warnings, documents }),
  )
  const body = bodyOf({
    ...ownExtras(FORMAT, request),
    model: request.model,
    messages,
    documents: documents.length === 0 ? ownExtras(FORMAT, request).documents : documents,
    stream: request.stream,
    ...encodeTools(request, warnings),
    max_tokens: request.maxTokens,
    temperature: request.temperature,
    p: request.topP,
    k: request.topK,
    seed: request.seed,
    stop_sequences: request.stop,
    presence_penalty: request.presencePenalty,
    frequency_penalty: request.frequencyPenalty,
    logprobs: request.logprobs === undefined ? undefined : true,
    response_format: encodeOutput(request.output),
    thinking: encodeThinking(request, warnings),
  })
  return { body, warnings: warnings.list() }
}

// --- Messages -----------------------------------------------------------------------------------------------------

function encodeMessage(message: Message, path: string, writing: Writing): readonly JsonObject[] {
  const { warnings } = writing
  warnings.foreign(`${path}.`, message)
  if (message.name !== undefined) warnings.unsupported(`${path}.name`)
  if (message.role === 'tool') return encodeResults(message, path, writing)
  if (message.role === 'assistant') return [encodeAssistant(message, path, writing)]
  const content = encodeParts(message.content, path, writing)
  if (content.length === 0) return []
  const role = message.role === 'user' ? 'user' : 'system'
  return [{ ...ownExtras(FORMAT, message), role, content: plainOrList(content) }]
}

/** Reasoning before calls becomes the tool plan; other reasoning becomes a block. */
function encodeAssistant(message: Message, path: string, writing: Writing): JsonObject {
  const { reasoning, calls } = reasoningAndCallsOf(message, path, writing.warnings)
  const content = encodeParts(message.content, path, writing)
  if (calls.length > 0) {
    return bodyOf({
      ...ownExtras(FORMAT, message),
      role: 'assistant',
      tool_plan: reasoning,
      content: content.length === 0 ? undefined : plainOrList(content),
      tool_calls: calls.map(({ call }) => encodeCall(call)),
    })
  }
  const blocks = reasoning === undefined ? content : [{ type: 'thinking', thinking: reasoning }, ...content]
  return { ...ownExtras(FORMAT, message), role: 'assistant', content: plainOrList(blocks) }
}

const encodeCall = (call: ToolCallPart): JsonObject => ({
  ...ownExtras(FORMAT, call),
  id: call.id,
  type: 'function',
  function: { name: call.name, arguments: call.arguments || '{}' },
})

const encodeResults = (message: Message, path: string, writing: Writing): readonly JsonObject[] =>
  encodeResultMessages(message, {
    path,
    warnings: writing.warnings,
    encode: (parts, at) => byType(encodeParts(parts, at, writing)),
    messageOf: (result, texts) => ({
      ...ownExtras(FORMAT, result),
      role: 'tool',
      tool_call_id: result.callId,
      content: texts.map(({ text }) => text).join('\n'),
    }),
    showing: content => ({ role: 'user', content }),
  })

/** The caller encodes reasoning and calls, which have separate fields. */
function encodeParts(parts: readonly Part[], path: string, writing: Writing): readonly JsonObject[] {
  return parts.flatMap((part, index) => encodePart(part, `${path}.content[${index}]`, writing))
}

function encodePart(part: Part, path: string, writing: Writing): readonly JsonObject[] {
  const { warnings } = writing
  if (part.type === 'reasoning' || part.type === 'toolCall' || part.type === 'toolResult') return []
  if (part.type !== 'vendor') warnings.foreign(`${path}.`, part)
  switch (part.type) {
    case 'text':
      if (part.citations !== undefined) warnings.lost(`${path}.citations`, 'cannot be sent back')
      if (part.signature !== undefined) warnings.lost(path, 'the signature of a text was left out')
      return part.text === '' ? [] : [{ ...ownExtras(FORMAT, part), type: 'text', text: part.text }]
    case 'refusal':
      return part.text === '' ? [] : [{ type: 'text', text: part.text }]
    case 'media':
      return encodeMedia(part, path, writing)
    default:
      if (part.format === FORMAT) return [part.value]
      warnings.lostPart(path, part)
      return []
  }
}

function encodeMedia(part: MediaPart, path: string, { warnings, documents }: Writing): readonly JsonObject[] {
  const text = documentText(part)
  if (text !== undefined) {
    documents.push({
      ...ownExtras(FORMAT, part),
      id: `doc:${documents.length}`,
      data: bodyOf({ title: part.name, context: part.context, text }),
    })
    return []
  }
  const url = part.kind === 'image' ? urlOf(part.source, part.mediaType ?? 'image/png') : undefined
  if (url !== undefined) {
    const image_url = bodyOf({ url, detail: part.detail })
    return [{ ...ownExtras(FORMAT, part), type: 'image_url', image_url }]
  }
  const kind = part.mediaType === undefined ? part.kind : `${part.kind} (${part.mediaType})`
  warnings.lostContent(path, `media of the type ${kind} cannot be sent`)
  return []
}

// --- Parameters ---------------------------------------------------------------------------------------------------

/** The format cannot force a tool by name, but can offer that tool only. */
function encodeTools(request: ChatRequest, warnings: Warnings): JsonObject {
  const tools = allowedFunctions(request, warnings)
  if (request.parallelTools === false) {
    warnings.lost('parallel_tool_calls', 'parallel tool calls cannot be disabled')
  }
  if (tools.length === 0) return {}
  const strict = tools.filter(tool => tool.strict)
  if (strict.length > 0 && strict.length < tools.length) {
    warnings.lost('tools.strict', 'must be the same for all tools, and was left out')
  }
  const mode = request.toolChoice?.mode
  return {
    tools: tools.map(tool => describedFunction(FORMAT, tool)),
    strict_tools: strict.length === tools.length ? true : undefined,
    tool_choice: mode === undefined || mode === 'auto' ? undefined : mode.toUpperCase(),
  }
}

function encodeOutput(output: Output | undefined): JsonObject | undefined {
  if (output === undefined) return undefined
  return output.type === 'json'
    ? { type: 'json_object' }
    : { type: 'json_object', json_schema: output.schema }
}

function encodeThinking({ reasoning, maxTokens }: ChatRequest, warnings: Warnings): JsonObject | undefined {
  if (reasoning === undefined) return undefined
  const { effort, budget, isAdaptive, summary } = reasoning
  if (summary !== undefined) warnings.lost('reasoning.summary', 'is not supported and was left out')
  if (effort === 'none' || budget === 0) return { type: 'disabled' }
  if (budget !== undefined) return { type: 'enabled', token_budget: budget }
  const effortBudget = effort === undefined ? undefined : budgetOf(effort)
  if (effortBudget !== undefined && !isAdaptive) {
    // Thinking counts against the output limit that the hold covers, so the budget must fit.
    const room = maxTokens === undefined ? effortBudget : Math.min(effortBudget, Math.floor(maxTokens / 2))
    return room < 1 ? { type: 'disabled' } : { type: 'enabled', token_budget: room }
  }
  return effort !== undefined || isAdaptive ? { type: 'enabled' } : undefined
}
