import type { JsonObject } from '../../../domain/json-value.ts'
import type { ChatRequest } from '../../hub/hub.ts'
import { type Conversation, gatherTurns, type Turn, type TurnWriting } from '../../hub/turns.ts'
import type { Warnings } from '../../hub/warnings.ts'

type Writing = TurnWriting & {
  textOf(text: string): JsonObject
  /** Whether a field enforces the schema, so that no instruction is needed. */
  readonly takesSchemas: boolean
}

/** The turns for Claude's hosts: the user begins, and output that no field can request is requested in an instruction. */
export function encodeConversation(request: ChatRequest, writing: Writing): Conversation {
  const { warnings, textOf, takesSchemas } = writing
  const conversation = gatherTurns(request.messages, writing)
  const instruction =
    takesSchemas && request.output?.type === 'schema' ? undefined : outputInstruction(request)
  if (instruction !== undefined) {
    conversation.system.push(textOf(instruction))
    warnings.lost('response_format', 'JSON output is requested in the prompt')
  }
  trimLast(conversation.turns)
  return beginWithUser(conversation, textOf, warnings)
}

const ASK_FOR_JSON = 'Answer with JSON that has no words around it and no code fence'

/** JSON without a schema always needs an instruction; JSON with a schema needs one for older models. */
function outputInstruction({ output }: ChatRequest): string | undefined {
  if (output === undefined) return undefined
  return output.type === 'json'
    ? `${ASK_FOR_JSON}.`
    : `${ASK_FOR_JSON}, and fits this schema: ${JSON.stringify(output.schema)}`
}

/** A prefilled beginning of the answer must not end with whitespace. */
function trimLast(turns: readonly Turn[]): void {
  const last = turns.at(-1)
  const block = last?.content.at(-1)
  if (last?.role !== 'assistant' || typeof block?.text !== 'string') return
  last.content[last.content.length - 1] = { ...block, text: block.text.trimEnd() }
}

/** The text of an inserted user turn: the vendor rejects whitespace. */
const PLACEHOLDER_TEXT = '.'

/**
 * A conversation must begin with the user. If it has instructions only, they become a user turn. If it begins with the
 * assistant, a user turn is inserted before it.
 */
function beginWithUser(
  { system, turns }: Conversation,
  textOf: Writing['textOf'],
  warnings: Warnings,
): Conversation {
  const [first] = turns
  if (first === undefined) {
    if (system.length === 0) return { system, turns }
    warnings.lost('messages', 'instructions alone are not accepted: they were sent as a user message')
    return { system: [], turns: [{ role: 'user', content: [...system] }] }
  }
  if (first.role === 'user') return { system, turns }
  warnings.lost('messages', 'a conversation must begin with the user: an empty user message was added')
  return { system, turns: [{ role: 'user', content: [textOf(PLACEHOLDER_TEXT)] }, ...turns] }
}
