import { isObject, type JsonObject } from '../../domain/json-value.ts'
import { takesOllamaLevels } from '../../models/generation.ts'
import { reasoningAndCallsOf } from '../hub/assistant-turn.ts'
import { withoutCacheMarks } from '../hub/cache.ts'
import { bodyOf, ownExtras } from '../hub/fields.ts'
import type { EncodedRequest } from '../hub/format.ts'
import type { ChatRequest, MediaPart, Message, Part } from '../hub/hub.ts'
import { documentText } from '../hub/media.ts'
import { effortOf } from '../hub/reasoning.ts'
import { parseArguments } from '../hub/tools/arguments.ts'
import { withoutCustomTools } from '../hub/tools/custom-tools.ts'
import { allowedFunctions, describedFunction } from '../hub/tools/tool-choice.ts'
import { toolNames } from '../hub/tools/tool-names.ts'
import { encodeResultMessages } from '../hub/tools/tool-results.ts'
import { warnBeyondText, warnOfDescription, warnUnsupported } from '../hub/unsupported.ts'
import { createChatWarnings, type Warnings } from '../hub/warnings.ts'
import { FORMAT } from './content.ts'

export function encodeRequest(original: ChatRequest): EncodedRequest {
  const warnings = createChatWarnings(original, FORMAT)
  const request = withoutCustomTools(withoutCacheMarks(original, warnings), warnings)
  const { options: ownOptions, ...own } = ownExtras(FORMAT, request)
  warnings.foreign('', request)
  warnUnsupported(request, ['logprobs', 'verbosity', 'audio', 'safety', 'user', 'serviceTier'], warnings)
  warnBeyondText(request, warnings)
  warnOfDescription(request, warnings)
  const names = toolNames(request.messages)
  const messages = request.messages.flatMap((message, index) =>
    encodeMessage(message, { path: `messages[${index}]`, names, warnings }),
  )
  const tools = encodeTools(request, warnings)
  const options = bodyOf({
    num_ctx: contextFor(JSON.stringify([messages, tools ?? []], withoutImages), request.maxTokens),
    num_predict: request.maxTokens,
    temperature: request.temperature,
    top_p: request.topP,
    top_k: request.topK,
    seed: request.seed,
    stop: request.stop,
    presence_penalty: request.presencePenalty,
    frequency_penalty: request.frequencyPenalty,
    ...(isObject(ownOptions) ? ownOptions : {}),
  })
  const body = bodyOf({
    ...own,
    model: request.model,
    messages,
    // The server streams by default, so `stream` is always set.
    stream: request.stream,
    tools,
    format: request.output?.type === 'schema' ? request.output.schema : request.output?.type,
    think: encodeThink(request, warnings),
    options: Object.keys(options).length === 0 ? undefined : options,
  })
  return { body, warnings: warnings.list() }
}

/** The server's default context, and the largest that is requested. */
const USUAL_CONTEXT = 4_096
const MAX_CONTEXT = 131_072
const USUAL_ANSWER = 1_024
const BYTES_PER_TOKEN = 3

/** The model decides how many tokens an image takes, so its bytes do not count. */
const withoutImages = (name: string, value: unknown): unknown => (name === 'images' ? undefined : value)

/**
 * The server silently truncates a prompt that does not fit, so a longer one requests a larger context. Sizes double: the
 * server reloads the model for every new size.
 */
function contextFor(prompt: string, maxTokens = USUAL_ANSWER): number | undefined {
  const need = Buffer.byteLength(prompt) / BYTES_PER_TOKEN + maxTokens
  if (need <= USUAL_CONTEXT) return undefined
  return Math.min(2 ** Math.ceil(Math.log2(need)), MAX_CONTEXT)
}

// --- Messages -----------------------------------------------------------------------------------------------------

type Writing = {
  readonly path: string
  readonly names: ReadonlyMap<string, string>
  readonly warnings: Warnings
}

/** The text and images of some parts. Reasoning and calls have fields of their own. */
type EncodedContent = { readonly content: string; readonly images: readonly string[] | undefined }

function encodeMessage(message: Message, writing: Writing): readonly JsonObject[] {
  const { path, warnings } = writing
  warnings.foreign(`${path}.`, message)
  if (message.name !== undefined) warnings.unsupported(`${path}.name`)
  if (message.role === 'tool') return encodeResults(message, writing)
  const own = ownExtras(FORMAT, message)
  const content = encodeParts(message.content, path, warnings)
  if (message.role !== 'assistant') {
    return [bodyOf({ ...own, role: message.role === 'user' ? 'user' : 'system', ...content })]
  }
  return [bodyOf({ ...own, role: 'assistant', ...content, ...encodeTurn(message, writing) })]
}

function encodeTurn(message: Message, { path, warnings }: Writing): JsonObject {
  const { reasoning, calls } = reasoningAndCallsOf(message, path, warnings)
  const encoded = calls.map(({ call, path: at }) => {
    const input = parseArguments(call.arguments, (field, message) => warnings.lost(`${at}.${field}`, message))
    return { ...ownExtras(FORMAT, call), id: call.id, function: { name: call.name, arguments: input } }
  })
  return { thinking: reasoning, tool_calls: encoded.length === 0 ? undefined : encoded }
}

/** A result names its tool. */
const encodeResults = (message: Message, { path, names, warnings }: Writing): readonly JsonObject[] =>
  encodeResultMessages(message, {
    path,
    warnings,
    encode: (parts, at) => {
      const { content, images = [] } = encodeParts(parts, at, warnings)
      return { text: content, media: images }
    },
    messageOf: (result, content) =>
      bodyOf({
        ...ownExtras(FORMAT, result),
        role: 'tool',
        content,
        tool_name: result.name ?? names.get(result.callId),
        tool_call_id: result.callId,
      }),
    showing: images => ({ role: 'user', content: '', images }),
  })

function encodeParts(parts: readonly Part[], path: string, warnings: Warnings): EncodedContent {
  const texts: string[] = []
  const images: string[] = []
  for (const [index, part] of parts.entries()) {
    const at = `${path}.content[${index}]`
    switch (part.type) {
      case 'text':
        warnings.foreign(`${at}.`, part)
        if (part.citations !== undefined) warnings.lost(`${at}.citations`, 'cannot be sent back')
        if (part.signature !== undefined) warnings.lost(at, 'the signature of a text was left out')
        texts.push(part.text)
        break
      case 'refusal':
        texts.push(part.text)
        break
      case 'media':
        warnings.foreign(`${at}.`, part)
        encodeMedia(part, at, { texts, images, warnings })
        break
      case 'vendor':
        warnings.lostPart(at, part)
        break
      default:
      // The caller encodes reasoning, calls and results.
    }
  }
  return { content: texts.join('\n'), images: images.length === 0 ? undefined : images }
}

/** Images as bare base64, documents as their text. */
function encodeMedia(
  part: MediaPart,
  path: string,
  { texts, images, warnings }: { texts: string[]; images: string[]; warnings: Warnings },
): void {
  const text = documentText(part)
  if (part.detail !== undefined && part.detail !== 'auto') {
    warnings.unsupported(`${path}.detail`)
  }
  if (text !== undefined) texts.push(part.name === undefined ? text : `${part.name}\n${text}`)
  else if (part.kind === 'image' && 'data' in part.source) images.push(part.source.data)
  else if (part.kind === 'image' && 'url' in part.source)
    warnings.lostContent(path, 'an image cannot be sent as a URL')
  else warnings.lostContent(path, `media of the type ${part.kind} cannot be sent`)
}

// --- Parameters ---------------------------------------------------------------------------------------------------

/** The format has no tool choice: tools that must not be used are left out. */
function encodeTools(request: ChatRequest, warnings: Warnings): readonly JsonObject[] | undefined {
  const { toolChoice, parallelTools } = request
  const tools = allowedFunctions(request, warnings)
  if (tools.length === 0 || toolChoice?.mode === 'none') return undefined
  if (toolChoice?.mode === 'required') warnings.lost('tool_choice', 'a tool call cannot be required')
  if (parallelTools === false) warnings.lost('parallel_tool_calls', 'parallel tool calls cannot be disabled')
  if (tools.some(tool => tool.strict)) warnings.unsupported('tools.strict')
  return tools.map(tool => describedFunction(FORMAT, tool))
}

const LEVELS: Readonly<Record<string, string>> = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

function encodeThink({ reasoning, model }: ChatRequest, warnings: Warnings): boolean | string | undefined {
  if (reasoning === undefined) return undefined
  const { effort, budget, isAdaptive, summary } = reasoning
  if (summary !== undefined) warnings.lost('reasoning.summary', 'is not supported and was left out')
  const requested = effort ?? (budget === undefined ? undefined : effortOf(budget))
  if (requested === undefined) return isAdaptive ? true : undefined
  if (requested === 'none') return false
  const level = takesOllamaLevels(model) ? LEVELS[requested] : undefined
  if (level !== requested || effort === undefined) {
    warnings.lost('reasoning', `is sent as ${level ?? 'on'}, the closest value that the model accepts`)
  }
  return level ?? true
}
