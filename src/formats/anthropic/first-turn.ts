import type { JsonObject } from '../openai/value.ts'
import type { Warnings } from '../warnings.ts'

type Turn = { readonly role: 'user' | 'assistant'; readonly content: readonly JsonObject[] }

/** What stands for a user who has said nothing: blanks are refused. */
const NOTHING_SAID = '.'

type Opening<T extends Turn> = {
  readonly system: readonly JsonObject[]
  readonly turns: readonly T[]
  /** A turn of the user that consists of these blocks. */
  turnOf(content: JsonObject[]): T
  textOf(text: string): JsonObject
}

/**
 * A conversation begins with the user. One of nothing but instructions has them as the user's words; one that begins with
 * the assistant, such as a greeting, gets a turn before it.
 */
export function beginWithUser<T extends Turn>(
  { system, turns, turnOf, textOf }: Opening<T>,
  warnings: Warnings,
): { readonly system: readonly JsonObject[]; readonly turns: readonly T[] } {
  const [first] = turns
  if (first === undefined) {
    if (system.length === 0) return { system, turns }
    warnings.lost('messages', 'instructions alone are refused and were sent as words of the user')
    return { system: [], turns: [turnOf([...system])] }
  }
  if (first.role === 'user') return { system, turns }
  warnings.lost('messages', 'a conversation begins with the user: a turn without words was added')
  return { system, turns: [turnOf([textOf(NOTHING_SAID)]), ...turns] }
}
