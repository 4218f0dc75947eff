import type { Message } from '../hub.ts'

/** The names of tools by call id, for formats whose results name the tool. */
export function toolNames(messages: readonly Message[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>()
  for (const { content } of messages) {
    for (const part of content) if (part.type === 'toolCall') names.set(part.id, part.name)
  }
  return names
}
