import type { ChatRequest, Message } from '../hub.ts'
import type { JsonObject } from '../openai/value.ts'
import type { Warnings } from '../warnings.ts'

/** What one side said until the other did, and the message it begins with; none where a turn had to be added. */
export type Turn = {
  readonly role: 'user' | 'assistant'
  readonly content: JsonObject[]
  readonly first?: Message
}

type Conversation = { readonly system: readonly JsonObject[]; readonly turns: readonly Turn[] }

type Writing = {
  readonly warnings: Warnings
  blocksOf(message: Message, path: string): readonly JsonObject[]
  /** Of these, what may be told as an instruction; all where it is not given. */
  instructionsOf?(blocks: readonly JsonObject[], path: string): readonly JsonObject[]
  textOf(text: string): JsonObject
  /** Whether the model is held to a schema by a field, so that no words are needed. */
  readonly takesSchemas: boolean
}

/**
 * Instructions before the first turn are the system's; later ones go into the user's turn beside them. Neighbours of one
 * role become one turn, and the results of tools lead the turn after the calls: so the vendor wants it.
 */
export function gatherTurns(request: ChatRequest, writing: Writing): Conversation {
  const { warnings, blocksOf, instructionsOf = blocks => blocks, textOf, takesSchemas } = writing
  const system: JsonObject[] = []
  const turns: Turn[] = []
  for (const [index, message] of request.messages.entries()) {
    const path = `messages[${index}]`
    warnings.foreign(`${path}.`, message)
    if (message.name !== undefined) warnings.lost(`${path}.name`, 'has no counterpart and was left out')
    const blocks = blocksOf(message, path)
    const isInstruction = message.role === 'system' || message.role === 'developer'
    if (isInstruction && turns.length === 0) system.push(...instructionsOf(blocks, path))
    else addTurn(turns, message, blocks)
    if (isInstruction && turns.length > 0) {
      warnings.lost(path, 'an instruction inside the conversation is sent as words of the user')
    }
  }
  const wish = takesSchemas && request.output?.type === 'schema' ? undefined : outputInWords(request)
  if (wish !== undefined) {
    system.push(textOf(wish))
    warnings.lost('response_format', 'JSON is asked for in words')
  }
  trimLast(turns)
  return beginWithUser({ system, turns }, textOf, warnings)
}

const ASK_FOR_JSON = 'Answer with JSON that has no words around it and no code fence'

/** JSON of no schema cannot be asked for otherwise, and JSON of one only of newer models. */
function outputInWords({ output }: ChatRequest): string | undefined {
  if (output === undefined) return undefined
  return output.type === 'json'
    ? `${ASK_FOR_JSON}.`
    : `${ASK_FOR_JSON}, and fits this schema: ${JSON.stringify(output.schema)}`
}

function addTurn(turns: Turn[], message: Message, blocks: readonly JsonObject[]): void {
  const role = message.role === 'assistant' ? 'assistant' : 'user'
  if (blocks.length === 0) return
  const last = turns.at(-1)
  if (last?.role === role) last.content.push(...blocks)
  else turns.push({ role, content: [...blocks], first: message })
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
    warnings.lost('messages', 'instructions alone are refused and were sent as words of the user')
    return { system: [], turns: [{ role: 'user', content: [...system] }] }
  }
  if (first.role === 'user') return { system, turns }
  warnings.lost('messages', 'a conversation begins with the user: a turn without words was added')
  return { system, turns: [{ role: 'user', content: [textOf(NOTHING_SAID)] }, ...turns] }
}
