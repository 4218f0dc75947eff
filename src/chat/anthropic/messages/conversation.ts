import type { JsonObject } from '../../../domain/json-value.ts'
import type { ChatRequest } from '../../hub/hub.ts'
import { type Conversation, gatherTurns, type Turn, type TurnWriting } from '../../hub/turns.ts'
import type { Warnings } from '../../hub/warnings.ts'

type Writing = TurnWriting & {
  textOf(text: string): JsonObject
  /** Whether the model is held to a schema by a field, so that no words are needed. */
  readonly takesSchemas: boolean
}

/** The turns as Claude's hosts take them: the user begins, and what no field can ask for is asked for in words. */
export function encodeConversation(request: ChatRequest, writing: Writing): Conversation {
  const { warnings, textOf, takesSchemas } = writing
  const conversation = gatherTurns(request.messages, writing)
  const wish = takesSchemas && request.output?.type === 'schema' ? undefined : outputInWords(request)
  if (wish !== undefined) {
    conversation.system.push(textOf(wish))
    warnings.lost('response_format', 'JSON output is requested in the prompt')
  }
  trimLast(conversation.turns)
  return beginWithUser(conversation, textOf, warnings)
}

const ASK_FOR_JSON = 'Answer with JSON that has no words around it and no code fence'

/** JSON of no schema cannot be asked for otherwise, and JSON of one only of newer models. */
function outputInWords({ output }: ChatRequest): string | undefined {
  if (output === undefined) return undefined
  return output.type === 'json'
    ? `${ASK_FOR_JSON}.`
    : `${ASK_FOR_JSON}, and fits this schema: ${JSON.stringify(output.schema)}`
}

/** The beginning of an answer that the client has written itself must not end with a blank. */
function trimLast(turns: readonly Turn[]): void {
  const last = turns.at(-1)
  const block = last?.content.at(-1)
  if (last?.role !== 'assistant' || typeof block?.text !== 'string') return
  last.content[last.content.length - 1] = { ...block, text: block.text.trimEnd() }
}

/** What stands for a user who has said nothing: blanks are refused. */
const NOTHING_SAID = '.'

/**
 * A conversation begins with the user. One of nothing but instructions has them as the user's words; one that begins with
 * the assistant, such as a greeting, gets a turn before it.
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
  return { system, turns: [{ role: 'user', content: [textOf(NOTHING_SAID)] }, ...turns] }
}
