import { isObject, type JsonObject } from '../../../domain/json-value.ts'
import type { ChatDialect } from '../../hub/dialect.ts'
import type { Warnings } from '../../hub/warnings.ts'

/** Converts a body to the dialect, with a warning for each unsupported field. */
export function fitDialect(body: JsonObject, dialect: ChatDialect, warnings: Warnings): JsonObject {
  const entries = Object.entries(body).flatMap(([name, value]) => {
    if (dialect.needless.includes(name)) return []
    if (dialect.refused.includes(name)) {
      warnings.unsupported(name)
      return []
    }
    return [[dialect.renamed[name] ?? name, fitValue(name, value, dialect, warnings)] as const]
  })
  return Object.fromEntries(entries)
}

/** Whether the host accepts this body, so that its bytes can be forwarded unchanged. */
export function isInDialect(body: JsonObject, dialect: ChatDialect): boolean {
  const { renamed, refused, needless, ids } = dialect
  const isUnsupported = (name: string) =>
    Object.hasOwn(renamed, name) || refused.includes(name) || needless.includes(name)
  if (Object.keys(body).some(isUnsupported)) return false
  if (body.tool_choice === 'required' || isAllowedTools(body.tool_choice)) return false
  // No host with a dialect supports the deprecated `functions`.
  if ('functions' in body || 'function_call' in body) return false
  const messages = Array.isArray(body.messages) ? body.messages.filter(isObject) : []
  const isFitting = (id: unknown) =>
    typeof id !== 'string' || (id.length <= ids.maxLength && ids.pattern.test(id))
  return messages.every(message => {
    const calls = Array.isArray(message.tool_calls) ? message.tool_calls.filter(isObject) : []
    return (
      message.role !== 'developer' &&
      message.role !== 'function' &&
      hasOnly(message, MESSAGE_FIELDS) &&
      isFitting(message.tool_call_id) &&
      calls.every(call => hasOnly(call, CALL_FIELDS) && isFitting(call.id))
    )
  })
}

/** The members of messages and calls that every host supports. Reasoning, refusals and signatures differ. */
const MESSAGE_FIELDS = ['role', 'content', 'name', 'tool_calls', 'tool_call_id', 'prefix']
const CALL_FIELDS = ['id', 'type', 'function', 'index']

const hasOnly = (fields: JsonObject, names: readonly string[]): boolean =>
  Object.keys(fields).every(name => names.includes(name))

function fitValue(name: string, value: unknown, dialect: ChatDialect, warnings: Warnings): unknown {
  if (name === 'tool_choice') return fitToolChoice(value, dialect, warnings)
  if (name === 'messages' && Array.isArray(value)) return value.map(message => fitMessage(message, warnings))
  return value
}

function fitToolChoice(choice: unknown, { required }: ChatDialect, warnings: Warnings): unknown {
  if (choice === 'required') return required
  if (!isAllowedTools(choice)) return choice
  warnings.lost('tool_choice', 'cannot be limited to some of the tools')
  const { mode } = (choice as { allowed_tools: { mode: unknown } }).allowed_tools
  return mode === 'required' ? required : mode
}

const isAllowedTools = (choice: unknown): boolean => isObject(choice) && choice.type === 'allowed_tools'

/** In a dialect, instructions have one role, reasoning is a content part, and foreign signatures have no field. */
function fitMessage(message: unknown, warnings: Warnings): unknown {
  if (!isObject(message)) return message
  const {
    reasoning_content: reasoning,
    reasoning_details: reasoningDetails,
    refusal,
    ...rest
  } = message as Fields
  if (reasoningDetails !== undefined)
    warnings.lost('reasoning_details', 'content that another vendor signed was left out')
  const content = typeof refusal === 'string' ? withRefusal(rest.content, refusal) : rest.content
  const fitted: Fields = { ...rest }
  if (rest.role === 'developer') fitted.role = 'system'
  if (content !== undefined) fitted.content = content
  if (typeof reasoning === 'string' && reasoning !== '') {
    const thinking = { type: 'thinking', thinking: [{ type: 'text', text: reasoning }] }
    fitted.content = [thinking, ...partsOf(content)]
  }
  if (Array.isArray(rest.tool_calls)) fitted.tool_calls = rest.tool_calls.map(call => fitCall(call, warnings))
  return fitted
}

function fitCall(call: unknown, warnings: Warnings): unknown {
  if (!isObject(call) || !('extra_content' in call)) return call
  warnings.lost('tool_calls.extra_content', 'content that another vendor signed was left out')
  const { extra_content: _, ...rest } = call as Fields
  return rest
}

type Fields = Record<string, unknown>

const withRefusal = (content: unknown, refusal: string): unknown =>
  Array.isArray(content)
    ? [...content, { type: 'text', text: refusal }]
    : `${typeof content === 'string' ? content : ''}${refusal}`

function partsOf(content: unknown): readonly unknown[] {
  if (Array.isArray(content)) return content
  return typeof content === 'string' && content !== '' ? [{ type: 'text', text: content }] : []
}
