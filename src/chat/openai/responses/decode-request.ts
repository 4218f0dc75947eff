import type { JsonObject } from '../../../domain/json-value.ts'
import {
  compact,
  decoding,
  extrasOf,
  type FieldReader,
  strictFields,
  unreadFields,
} from '../../hub/fields.ts'
import type { DecodedRequest } from '../../hub/format.ts'
import type { ChatRequest, Message, Reasoning, Tool, ToolChoice } from '../../hub/hub.ts'
import { atClientPath } from '../../hub/lost-content.ts'
import { modelIn } from '../../hub/model-name.ts'
import { attachSignatures } from '../../hub/signature.ts'
import { decodeOutput, formatIn } from '../output.ts'
import { streamOptionsIn } from '../stream-options.ts'
import { decodeContent, decodeItem, decodeResult, FORMAT } from './content.ts'

export const ENCRYPTED = 'reasoning.encrypted_content'
export const LOGPROBS = 'message.output_text.logprobs'

/** Features that need stored answers, and what to do instead. */
const STORED = {
  previous_response_id: 'is not supported: responses are not stored, so send the whole conversation as input',
  conversation: 'is not supported: conversations are not stored, so send the whole conversation as input',
  prompt: 'is not supported: prompts are not stored, so send the text itself',
} as const

export const decodeRequest = (body: unknown): DecodedRequest => decoding(() => decode(strictFields(body, '')))

function decode(body: FieldReader): ChatRequest {
  for (const [name, message] of Object.entries(STORED)) {
    if (body.any(name) !== undefined) body.refuse(name, message)
  }
  if (body.flag('background')) body.refuse('background', 'is not supported: responses are not stored')
  const model = modelIn(body)
  const instructions = body.text('instructions')
  const text = body.fields('text')
  const config = body.fields('reasoning')
  const include = body.texts('include') ?? []
  const topLogprobs = body.number('top_logprobs')
  const wantsLogprobs = include.includes(LOGPROBS) || (topLogprobs ?? 0) > 0
  const { choice, hosted } = decodeChoice(body)
  const others = include.filter(each => each !== ENCRYPTED && each !== LOGPROBS)
  const messages = decodeInput(body)
  // The gateway never stores answers, so `store: false` needs no warning.
  const store = body.flag('store') ? { store: true } : {}
  const request: ChatRequest = compact<ChatRequest>({
    model,
    stream: body.flag('stream') ?? false,
    messages: [
      ...(instructions ? [{ role: 'system', content: [{ type: 'text', text: instructions }] } as const] : []),
      ...messages,
    ],
    tools: body.list('tools') && body.each('tools').map(decodeTool),
    toolChoice: choice,
    parallelTools: body.flag('parallel_tool_calls'),
    maxTokens: body.count('max_output_tokens'),
    temperature: body.number('temperature'),
    topP: body.number('top_p'),
    logprobs: wantsLogprobs ? (topLogprobs ?? 0) : undefined,
    output: decodeOutput(text && formatIn(text, 'format'), format => format),
    reasoning: decodeReasoning(config, include.includes(ENCRYPTED)),
    verbosity: text?.text('verbosity'),
    user: body.text('user'),
    serviceTier: body.text('service_tier'),
  })
  const otherFields = unreadFields(body, {
    text: text?.rest(),
    reasoning: config?.rest(),
    stream_options: streamOptionsIn(body)?.rest(),
  })
  const rest = { ...otherFields, ...hosted, ...store, ...(others.length > 0 && { include: others }) }
  return Object.keys(rest).length === 0 ? request : { ...request, extras: { [FORMAT]: rest } }
}

/** Joins consecutive items of the assistant (texts, reasoning, calls) into one turn. */
function decodeInput(body: FieldReader): readonly Message[] {
  const input = body.any('input')
  if (typeof input === 'string') return [{ role: 'user', content: [{ type: 'text', text: input }] }]
  if (body.needList('input').length === 0)
    body.refuse('input', 'must be a string or a list of at least one item')
  const messages: Message[] = []
  for (const item of body.each('input')) {
    const message = decodeInputItem(item)
    const last = messages.at(-1)
    const goesOn = last?.role === message.role && (message.role === 'assistant' || message.role === 'tool')
    if (goesOn) messages[messages.length - 1] = { ...last, content: [...last.content, ...message.content] }
    else messages.push(message)
  }
  return messages.map(message =>
    message.role === 'assistant' ? { ...message, content: attachSignatures(message.content) } : message,
  )
}

function decodeInputItem(item: FieldReader): Message {
  const type = item.text('type') ?? 'message'
  if (type === 'function_call_output' || type === 'custom_tool_call_output') {
    return { role: 'tool', content: [decodeResult(item, type === 'custom_tool_call_output')] }
  }
  if (type === 'item_reference')
    item.refuse(
      'id',
      'is not supported: items are not stored, so send the item itself, as SDKs do with store: false',
    )
  // A call without an id cannot have a result, so none is generated.
  if (type !== 'message')
    return { role: 'assistant', content: decodeItem(item, () => '').map(part => atClientPath(part, item)) }
  const role = item.needText('role')
  switch (role) {
    case 'assistant':
      return { role, content: decodeItem(item, () => '') }
    case 'user':
    case 'system':
    case 'developer': {
      const content = decodeContent(item)
      for (const name of ['id', 'status']) item.any(name)
      return compact<Message>({ role, content, extras: extrasOf(FORMAT, item.rest()) })
    }
    default:
      return item.refuse('role', 'must be one of user, assistant, system, developer')
  }
}

function decodeTool(tool: FieldReader): Tool {
  const type = tool.needText('type')
  if (type === 'function') {
    return compact<Tool & { type: 'function' }>({
      type,
      name: tool.needText('name'),
      description: tool.text('description'),
      parameters: tool.object('parameters'),
      strict: tool.flag('strict'),
      extras: extrasOf(FORMAT, tool.rest()),
    })
  }
  if (type === 'custom') {
    return compact<Tool & { type: 'custom' }>({
      type,
      name: tool.needText('name'),
      description: tool.text('description'),
      grammar: tool.object('format'),
      extras: extrasOf(FORMAT, tool.rest()),
    })
  }
  return { type: 'vendor', format: FORMAT, value: tool.value }
}

/** `hosted`: the choice of a tool that the vendor runs, unchanged. */
function decodeChoice(body: FieldReader): { choice?: ToolChoice; hosted?: JsonObject } {
  const choiceField = body.any('tool_choice')
  if (choiceField === undefined) return {}
  if (choiceField === 'auto' || choiceField === 'none' || choiceField === 'required')
    return { choice: { mode: choiceField } }
  if (typeof choiceField === 'string')
    return body.refuse('tool_choice', 'must be auto, none, required or a tool')
  const choice = body.needFields('tool_choice')
  switch (choice.needText('type')) {
    case 'function':
    case 'custom':
      return { choice: { mode: 'required', only: [choice.needText('name')] } }
    case 'allowed_tools': {
      const tools = choice.each('tools')
      if (tools.some(tool => tool.text('name') === undefined)) return { hosted: { tool_choice: choiceField } }
      const mode = choice.text('mode') === 'required' ? 'required' : 'auto'
      return { choice: { mode, only: tools.map(tool => tool.needText('name')) } }
    }
    default:
      return { hosted: { tool_choice: choiceField } }
  }
}

function decodeReasoning(config: FieldReader | undefined, isReturned: boolean): Reasoning | undefined {
  const reasoning = compact<Reasoning>({
    effort: config?.text('effort'),
    summary: config?.text('summary') ?? config?.text('generate_summary'),
    isReturned: isReturned ? true : undefined,
  })
  return Object.keys(reasoning).length === 0 ? undefined : reasoning
}
