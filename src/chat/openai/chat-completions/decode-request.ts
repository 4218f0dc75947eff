import {
  compact,
  decoding,
  extrasOf,
  type FieldReader,
  strictFields,
  unreadFields,
} from '../../hub/fields.ts'
import type { DecodedRequest } from '../../hub/format.ts'
import type {
  ChatRequest,
  FunctionTool,
  Message,
  Part,
  Reasoning,
  Tool,
  ToolCallPart,
  ToolChoice,
  ToolResultPart,
} from '../../hub/hub.ts'
import { atClientPath } from '../../hub/lost-content.ts'
import { modelIn } from '../../hub/model-name.ts'
import { decodeOutput, formatIn } from '../output.ts'
import { streamOptionsIn } from '../stream-options.ts'
import {
  argumentsText,
  cacheIn,
  decodeContent,
  decodePart,
  decodeReasoning,
  decodeToolCall,
  FORMAT,
  withTextSignature,
} from './content.ts'
import { decodeGrammar } from './grammar.ts'

const MAX_CHOICES = 128

export const decodeRequest = (body: unknown): DecodedRequest => decoding(() => decode(strictFields(body, '')))

function decode(body: FieldReader): ChatRequest {
  const maxTokens = body.count('max_tokens')
  const stop = body.any('stop')
  const wantsLogprobs = body.flag('logprobs')
  const topLogprobs = body.number('top_logprobs')
  const options = streamOptionsIn(body)
  // The gateway never stores answers, so `store: false` needs no warning.
  const store = body.flag('store') ? { store: true } : {}
  const request = compact<ChatRequest>({
    model: modelIn(body),
    stream: body.flag('stream') ?? false,
    messages: decodeMessages(body),
    ...decodeTools(body),
    maxTokens: body.count('max_completion_tokens') ?? maxTokens,
    temperature: body.number('temperature'),
    topP: body.number('top_p'),
    topK: body.count('top_k'),
    seed: body.number('seed'),
    stop: typeof stop === 'string' ? [stop] : body.texts('stop'),
    presencePenalty: body.number('presence_penalty'),
    frequencyPenalty: body.number('frequency_penalty'),
    choices: body.count('n', MAX_CHOICES),
    logprobs: wantsLogprobs ? (topLogprobs ?? 0) : undefined,
    output: decodeOutput(formatIn(body, 'response_format'), format => format.needFields('json_schema')),
    reasoning: decodeReasoningConfig(body),
    verbosity: body.text('verbosity'),
    modalities: body.texts('modalities'),
    audio: body.object('audio'),
    user: body.text('user'),
    serviceTier: body.text('service_tier'),
    includeUsage: options?.flag('include_usage'),
  })
  const rest = { ...unreadFields(body, { stream_options: options?.rest() }), ...store }
  return Object.keys(rest).length === 0 ? request : { ...request, extras: { [FORMAT]: rest } }
}

type Offer = Pick<ChatRequest, 'tools' | 'toolChoice' | 'parallelTools' | 'isFirstForm'>

/** Decodes `tools`, or the deprecated `functions` with one call per answer. */
function decodeTools(body: FieldReader): Offer {
  const parallelTools = body.flag('parallel_tool_calls')
  const tools = body.list('tools') && body.each('tools').map(decodeTool)
  const toolChoice = decodeToolChoice(body)
  const functions = body.list('functions') && body.each('functions').map(decodeFunction)
  const functionChoice = decodeFunctionChoice(body)
  if (functions === undefined || functions.length === 0 || tools !== undefined)
    return compact<Offer>({ tools, toolChoice, parallelTools })
  return compact<Offer>({
    tools: functions,
    toolChoice: functionChoice ?? toolChoice,
    parallelTools: false,
    isFirstForm: true,
  })
}

function decodeFunction(described: FieldReader): FunctionTool {
  return compact<FunctionTool>({
    type: 'function',
    name: described.needText('name'),
    description: described.text('description'),
    parameters: described.object('parameters'),
    extras: extrasOf(FORMAT, described.rest()),
  })
}

function decodeFunctionChoice(body: FieldReader): ToolChoice | undefined {
  const choice = body.any('function_call')
  if (choice === undefined) return undefined
  if (choice === 'auto' || choice === 'none') return { mode: choice }
  if (typeof choice === 'string') return body.refuse('function_call', 'must be auto, none or a function')
  return { mode: 'required', only: [body.needFields('function_call').needText('name')] }
}

/** Deprecated function calls have no ids: each gets one, so that its result can be assigned. */
type FunctionCalls = { readonly id: string; readonly name: string }[]

function decodeMessages(body: FieldReader): readonly Message[] {
  if (body.needList('messages').length === 0)
    body.refuse('messages', 'must be a list of at least one message')
  const messages: Message[] = []
  const calls: FunctionCalls = []
  for (const each of body.each('messages')) {
    const message = decodeMessage(each, calls)
    const last = messages.at(-1)
    // Each result is a message of its own; results for one turn are joined.
    if (message.role === 'tool' && last?.role === 'tool') {
      messages[messages.length - 1] = { ...last, content: [...last.content, ...message.content] }
    } else messages.push(message)
  }
  return messages
}

function decodeMessage(message: FieldReader, calls: FunctionCalls): Message {
  const role = message.needText('role')
  switch (role) {
    case 'system':
    case 'developer':
    case 'user': {
      const content = decodeContent(message)
      return compact<Message>({
        role,
        content,
        name: message.text('name'),
        extras: extrasOf(FORMAT, message.rest()),
      })
    }
    case 'assistant':
      return decodeAssistant(message, calls)
    case 'tool':
    case 'function':
      return { role: 'tool', content: [decodeResult(message, calls)] }
    default:
      return message.refuse('role', 'must be one of system, developer, user, assistant, tool')
  }
}

function decodeAssistant(message: FieldReader, functionCalls: FunctionCalls): Message {
  const parts: Part[] = [...withTextSignature(decodeReasoning(message), decodeContent(message))]
  const refusal = message.text('refusal')
  if (refusal) parts.push({ type: 'refusal', text: refusal })
  parts.push(...decodeEarlierImages(message))
  const calls = message.each('tool_calls')
  // A call without an id cannot have a result, so none is generated.
  for (const call of calls) parts.push(decodeToolCall(call, () => ''))
  const functionCall = message.fields('function_call')
  if (functionCall !== undefined) parts.push(decodeFunctionCall(functionCall, functionCalls))
  return compact<Message>({
    role: 'assistant',
    content: parts,
    name: message.text('name'),
    extras: extrasOf(FORMAT, message.rest()),
  })
}

/** Images of an earlier answer, as `encodeAnswer` returned them. */
const decodeEarlierImages = (message: FieldReader): readonly Part[] =>
  message.each('images').map(image => {
    image.any('index')
    return atClientPath(decodePart(image), image)
  })

function decodeFunctionCall(call: FieldReader, calls: FunctionCalls): ToolCallPart {
  const name = call.needText('name')
  const id = `call_function_${calls.length + 1}`
  calls.push({ id, name })
  return { type: 'toolCall', id, name, arguments: argumentsText(call.any('arguments')) }
}

function decodeResult(message: FieldReader, calls: FunctionCalls): ToolResultPart {
  const name = message.text('name')
  const content = decodeContent(message)
  message.any('role')
  return compact<ToolResultPart>({
    type: 'toolResult',
    callId: message.text('tool_call_id') ?? calls.findLast(call => call.name === name)?.id ?? name ?? '',
    name,
    content,
    ...cacheIn(message),
    extras: extrasOf(FORMAT, message.rest()),
  })
}

function decodeTool(tool: FieldReader): Tool {
  const type = tool.needText('type')
  if (type === 'function') {
    const described = tool.needFields('function')
    return compact<Tool & { type: 'function' }>({
      type,
      name: described.needText('name'),
      description: described.text('description'),
      parameters: described.object('parameters'),
      strict: described.flag('strict'),
      ...cacheIn(tool),
      extras: extrasOf(FORMAT, tool.rest()),
    })
  }
  if (type === 'custom') {
    const described = tool.needFields('custom')
    return compact<Tool & { type: 'custom' }>({
      type,
      name: described.needText('name'),
      description: described.text('description'),
      grammar: decodeGrammar(described.object('format')),
      extras: extrasOf(FORMAT, tool.rest()),
    })
  }
  return { type: 'vendor', format: FORMAT, value: tool.value }
}

function decodeToolChoice(body: FieldReader): ToolChoice | undefined {
  const choice = body.any('tool_choice')
  if (choice === undefined) return undefined
  if (choice === 'auto' || choice === 'none' || choice === 'required') return { mode: choice }
  if (choice === 'any') return { mode: 'required' }
  if (typeof choice === 'string') return body.refuse('tool_choice', 'must be auto, none, required or a tool')
  const fields = body.needFields('tool_choice')
  const type = fields.needText('type')
  if (type === 'allowed_tools') {
    const allowed = fields.needFields('allowed_tools')
    const mode = allowed.text('mode') === 'required' ? 'required' : 'auto'
    return { mode, only: allowed.each('tools').map(tool => nameIn(tool, tool.needText('type'))) }
  }
  return { mode: 'required', only: [nameIn(fields, type)] }
}

const nameIn = (fields: FieldReader, type: string): string => fields.needFields(type).needText('name')

/** `thinking` is an extension that several hosts share with Anthropic. */
function decodeReasoningConfig(body: FieldReader): Reasoning | undefined {
  const effort = body.text('reasoning_effort')
  const thinking = body.fields('thinking')
  const budget = thinking?.number('budget_tokens')
  const type = thinking?.text('type')
  const isFree = type === 'adaptive' || (type === 'enabled' && budget === undefined)
  const config = compact<Reasoning>({
    effort: type === 'disabled' ? 'none' : effort,
    budget,
    isAdaptive: isFree && effort === undefined ? true : undefined,
  })
  return Object.keys(config).length === 0 ? undefined : config
}
