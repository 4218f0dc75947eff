import type { JsonObject } from '../../domain/json-value.ts'
import type { Message } from './hub.ts'
import type { Warnings } from './warnings.ts'

/** The consecutive messages of one role, and the index of the first one; no index for a turn that the gateway inserted. */
export type Turn = {
  readonly role: 'user' | 'assistant'
  readonly content: JsonObject[]
  readonly first?: Message
}

/** A conversation with alternating roles, and its instructions separately. */
export type Conversation = { readonly system: JsonObject[]; readonly turns: Turn[] }

export type TurnWriting = {
  readonly warnings: Warnings
  blocksOf(message: Message, path: string): readonly JsonObject[]
  /** Selects the blocks that may be sent as instructions; absent: all. */
  instructionsOf?(blocks: readonly JsonObject[], path: string): readonly JsonObject[]
}

/**
 * Instructions before the first turn become the system prompt; later ones join the user's turn. Adjacent messages of one
 * role become one turn, so that tool results follow their calls together.
 */
export function gatherTurns(
  messages: readonly Message[],
  { warnings, blocksOf, instructionsOf = blocks => blocks }: TurnWriting,
): Conversation {
  const system: JsonObject[] = []
  const turns: Turn[] = []
  for (const [index, message] of messages.entries()) {
    const path = `messages[${index}]`
    warnings.foreign(`${path}.`, message)
    if (message.name !== undefined) warnings.unsupported(`${path}.name`)
    const blocks = blocksOf(message, path)
    const isInstruction = message.role === 'system' || message.role === 'developer'
    if (isInstruction && turns.length === 0) system.push(...instructionsOf(blocks, path))
    else addTurn(turns, message, blocks)
    if (isInstruction && turns.length > 0) {
      warnings.lost(path, 'an instruction inside the conversation is sent as a user message')
    }
  }
  return { system, turns }
}

function addTurn(turns: Turn[], message: Message, blocks: readonly JsonObject[]): void {
  const role = message.role === 'assistant' ? 'assistant' : 'user'
  if (blocks.length === 0) return
  const last = turns.at(-1)
  if (last?.role === role) last.content.push(...blocks)
  else turns.push({ role, content: [...blocks], first: message })
}
