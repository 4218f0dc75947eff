import type { Message } from '../hub.ts'

/** The names of tools by the ids of their calls, for formats that want a result to name its tool. */
export function toolNames(messages: readonly Message[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>()
  for (const { content } of messages) {
    for (const part of content) if (part.type === 'toolCall') names.set(part.id, part.name)
  }
  return names
}
