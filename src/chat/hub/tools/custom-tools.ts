import { member } from '../../../domain/json-value.ts'
import { parseBounded } from '../../../wire/json-bounds.ts'
import type { Stage } from '../../../wire/stage.ts'
import type { ChatAnswer, ChatEvent, ChatRequest, FunctionTool, Part, Tool, ToolCallPart } from '../hub.ts'
import type { Warnings } from '../warnings.ts'
import { FREE_TEXT as FIELD } from './arguments.ts'

/**
 * Tools with free text, for formats that lack them: each becomes a function with one field, and its calls are converted
 * back for the client. Both directions use the same field.
 */
const SCHEMA = {
  type: 'object',
  properties: { [FIELD]: { type: 'string', description: 'The whole input, as free text' } },
  required: [FIELD],
}

/** Replaces tools with free text by functions. */
export function withoutCustomTools(request: ChatRequest, warnings: Warnings): ChatRequest {
  const { tools, messages } = request
  const hasCustom =
    tools?.some(tool => tool.type === 'custom') ||
    messages.some(({ content }) => content.some(part => 'isCustom' in part))
  if (!hasCustom) return request
  return {
    ...request,
    messages: messages.map(message => ({ ...message, content: message.content.map(asFunctionPart) })),
    ...(tools && { tools: tools.map((tool, index) => asFunction(tool, `tools[${index}]`, warnings)) }),
  }
}

function asFunction(tool: Tool, path: string, warnings: Warnings): Tool {
  if (tool.type !== 'custom') return tool
  warnings.lost(path, `a tool with free-text input is sent as a function with the field ${FIELD}`)
  const { name, description, grammar, extras } = tool
  const described = [description, grammar && `The input must fit: ${JSON.stringify(grammar)}`].filter(Boolean)
  return {
    type: 'function',
    name,
    parameters: SCHEMA,
    ...(described.length > 0 && { description: described.join('\n\n') }),
    ...(extras && { extras }),
  } satisfies FunctionTool
}

function asFunctionPart(part: Part): Part {
  if (part.type === 'toolCall' && part.isCustom) {
    const { isCustom: _, ...call } = part
    return { ...call, arguments: JSON.stringify({ [FIELD]: part.arguments }) }
  }
  if (part.type !== 'toolResult' || !part.isCustom) return part
  const { isCustom: _, ...result } = part
  return result
}

/** The names of the tools whose calls the client expects as free text. */
function customNames(request: ChatRequest | undefined): ReadonlySet<string> {
  return new Set(request?.tools?.flatMap(tool => (tool.type === 'custom' ? [tool.name] : [])))
}

const isWrappedCall = (part: Part, names: ReadonlySet<string>): part is ToolCallPart =>
  part.type === 'toolCall' && !part.isCustom && names.has(part.name)

/** The free text in the arguments of a call; other arguments are returned unchanged. */
function freeText(json: string): string {
  try {
    const text = member(parseBounded(json), FIELD)
    return typeof text === 'string' ? text : json
  } catch {
    return json
  }
}

/** Converts the calls of such tools back to the form that the client expects. */
export function withCustomCalls(answer: ChatAnswer, request: ChatRequest | undefined): ChatAnswer {
  const names = customNames(request)
  if (names.size === 0) return answer
  const restored = (part: Part): Part =>
    isWrappedCall(part, names) ? { ...part, arguments: freeText(part.arguments), isCustom: true } : part
  return {
    ...answer,
    choices: answer.choices.map(choice => ({ ...choice, parts: choice.parts.map(restored) })),
  }
}

/** The same for a stream: the text of such a call is emitted at once, since only complete JSON can be parsed. */
export function restoringCustomCalls(
  encoder: Stage<ChatEvent, Buffer>,
  request: ChatRequest | undefined,
): Stage<ChatEvent, Buffer> {
  const names = customNames(request)
  if (names.size === 0) return encoder
  const pieces = new Map<string, string>()
  const write = (event: ChatEvent): readonly Buffer[] => encoder.push(event)

  return {
    push(event) {
      if (event.type !== 'open' && event.type !== 'delta' && event.type !== 'close') return write(event)
      const { choice, part } = event
      const key = `${choice}.${part}`
      if (event.type === 'open' && isWrappedCall(event.content, names)) {
        pieces.set(key, '')
        return write({ ...event, content: { ...event.content, isCustom: true } })
      }
      const existing = pieces.get(key)
      if (existing === undefined || event.type === 'open') return write(event)
      if (event.type === 'delta') {
        pieces.set(key, existing + (event.text ?? ''))
        return []
      }
      pieces.delete(key)
      return [...write({ type: 'delta', choice, part, text: freeText(existing) }), ...write(event)]
    },
    end: () => encoder.end(),
  }
}
