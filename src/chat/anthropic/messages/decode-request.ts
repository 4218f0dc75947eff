import { isDeepStrictEqual } from 'node:util'
import { member } from '../../../domain/json-value.ts'
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
  Output,
  Part,
  Reasoning,
  Tool,
  ToolChoice,
} from '../../hub/hub.ts'
import { modelIn } from '../../hub/model-name.ts'
import { commonTier } from '../../hub/service-tier.ts'
import { decodeBlocks, decodeCache, FORMAT } from './content.ts'

export const decodeRequest = (body: unknown): DecodedRequest => decoding(() => decode(strictFields(body, '')))

function decode(body: FieldReader): ChatRequest {
  const system = decodeBlocks(body, 'system')
  const choice = body.fields('tool_choice')
  const config = body.fields('output_config')
  const serial = choice?.flag('disable_parallel_tool_use')
  const reasoning = decodeReasoning(body, config?.text('effort'))
  // Only the vendor itself stores conversations.
  body.any('thread')
  return compact<ChatRequest>({
    model: modelIn(body),
    stream: body.flag('stream') ?? false,
    messages: [
      ...(system.length > 0 ? [{ role: 'system', content: system } as const] : []),
      ...decodeMessages(body),
    ],
    tools: body.list('tools') && body.each('tools').map(decodeTool),
    toolChoice: decodeChoice(choice),
    parallelTools: serial === undefined ? undefined : !serial,
    maxTokens: body.count('max_tokens'),
    temperature: body.number('temperature'),
    topP: body.number('top_p'),
    topK: body.number('top_k'),
    stop: body.texts('stop_sequences'),
    output: decodeOutput(body, config),
    reasoning,
    user: body.fields('metadata')?.text('user_id'),
    serviceTier: commonTier(body.text('service_tier')),
    extras: extrasOf(FORMAT, unreadFields(body, { output_config: config?.rest() })),
  })
}

function decodeMessages(body: FieldReader): readonly Message[] {
  if (body.needList('messages').length === 0)
    body.refuse('messages', 'must be a list of at least one message')
  return body.each('messages').flatMap(message => {
    const role = message.needText('role')
    if (role !== 'user' && role !== 'assistant' && role !== 'system') {
      return message.refuse('role', 'must be user or assistant')
    }
    const content = decodeBlocks(message)
    const extras = extrasOf(FORMAT, message.rest())
    return role === 'user' ? splitResults(content, extras) : [compact<Message>({ role, content, extras })]
  })
}

/** In the hub, tool results are messages of their own role; other content of the user follows them. */
function splitResults(content: readonly Part[], extras: Message['extras']): readonly Message[] {
  const results = content.filter(part => part.type === 'toolResult')
  const others = content.filter(part => part.type !== 'toolResult')
  const user = compact<Message>({ role: 'user', content: others, extras })
  if (results.length === 0) return [user]
  const tool = { role: 'tool', content: results } as const
  return others.length === 0 ? [tool] : [tool, user]
}

function decodeTool(tool: FieldReader): Tool {
  const type = tool.text('type') ?? 'custom'
  if (type !== 'custom') return { type: 'vendor', format: FORMAT, value: tool.value }
  return compact<FunctionTool>({
    type: 'function',
    name: tool.needText('name'),
    description: tool.text('description'),
    parameters: tool.object('input_schema'),
    strict: tool.flag('strict'),
    ...decodeCache(tool),
    extras: extrasOf(FORMAT, tool.rest()),
  })
}

function decodeChoice(choice: FieldReader | undefined): ToolChoice | undefined {
  switch (choice?.needText('type')) {
    case undefined:
      return undefined
    case 'auto':
      return { mode: 'auto' }
    case 'none':
      return { mode: 'none' }
    case 'any':
      return { mode: 'required' }
    case 'tool':
      return { mode: 'required', only: [(choice as FieldReader).needText('name')] }
    default:
      return (choice as FieldReader).refuse('type', 'must be one of auto, any, tool, none')
  }
}

/** The vendor's beta `structured-outputs-2025-11-13` has the same object under an older name. */
const BETA_FORMAT = 'output_format'

function decodeOutput(body: FieldReader, config: FieldReader | undefined): Output | undefined {
  const beta = body.fields(BETA_FORMAT)
  const format = config?.fields('format') ?? beta
  if (beta !== undefined && !isDeepStrictEqual(beta.value, format?.value))
    body.refuse(BETA_FORMAT, 'differs from output_config.format: send one of them')
  if (format?.text('type') !== 'json_schema') return undefined
  return { type: 'schema', schema: format.object('schema') ?? {}, isEnforced: true }
}

const THINKING: readonly string[] = ['disabled', 'enabled', 'adaptive']

const DISPLAYS: Readonly<Record<string, string>> = { summarized: 'auto', omitted: 'none' }

function decodeReasoning(body: FieldReader, effort: string | undefined): Reasoning | undefined {
  const mode = member(body.value.thinking, 'type')
  // A type that only the vendor knows stays in the extras.
  const thinking = typeof mode !== 'string' || THINKING.includes(mode) ? body.fields('thinking') : undefined
  const display = thinking?.text('display')
  const summary = display === undefined ? undefined : DISPLAYS[display]
  switch (thinking?.text('type')) {
    case 'disabled':
      return { effort: 'none' }
    case 'enabled':
      return compact<Reasoning>({ effort, budget: thinking.count('budget_tokens'), summary })
    case 'adaptive':
      return compact<Reasoning>({ effort, isAdaptive: true, summary })
    default:
      return effort === undefined ? undefined : { effort }
  }
}
