import { isObject, member } from '../../domain/json-value.ts'
import type { Part, ToolCallPart } from '../hub/hub.ts'

export const FORMAT = 'ollama'

/** The calls of a message. Older servers send no ids, and arguments are an object. */
function decodeCalls(message: unknown, newId: (prefix: string) => string): readonly ToolCallPart[] {
  const calls = member(message, 'tool_calls')
  if (!Array.isArray(calls)) return []
  return calls.filter(isObject).map(call => {
    const functionFields = member(call, 'function')
    const name = member(functionFields, 'name')
    return {
      type: 'toolCall',
      id: typeof call.id === 'string' && call.id !== '' ? call.id : newId('call_'),
      name: typeof name === 'string' ? name : '',
      arguments: argumentsText(member(functionFields, 'arguments')),
    }
  })
}

function argumentsText(value: unknown): string {
  if (typeof value === 'string' && value !== '') return value
  return JSON.stringify(isObject(value) ? value : {})
}

/** The parts of a message, in the order in which models generate them. */
export function decodeParts(message: unknown, newId: (prefix: string) => string): readonly Part[] {
  const [thinking, content] = [member(message, 'thinking'), member(message, 'content')]
  const thoughts: readonly Part[] =
    typeof thinking === 'string' && thinking !== '' ? [{ type: 'reasoning', text: thinking }] : []
  const texts: readonly Part[] =
    typeof content === 'string' && content !== '' ? [{ type: 'text', text: content }] : []
  return [...thoughts, ...texts, ...decodeCalls(message, newId)]
}

/** Unix seconds of `2024-05-24T20:01:31.01558Z`. */
export function createdIn(answer: unknown): number | undefined {
  const createdAt = member(answer, 'created_at')
  const ms = typeof createdAt === 'string' ? Date.parse(createdAt) : Number.NaN
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1000)
}
