import type { Message, ToolCallPart } from './hub.ts'
import type { Warnings } from './warnings.ts'

/** The reasoning and calls of an assistant message, for formats that accept no signatures. */
type ReasoningAndCalls = {
  readonly reasoning: string | undefined
  readonly calls: readonly { readonly call: ToolCallPart; readonly path: string }[]
}

export function reasoningAndCallsOf(message: Message, path: string, warnings: Warnings): ReasoningAndCalls {
  const thoughts: string[] = []
  const calls: { call: ToolCallPart; path: string }[] = []
  for (const [index, part] of message.content.entries()) {
    const at = `${path}.content[${index}]`
    if (part.type === 'reasoning') {
      const isSigned = part.signature !== undefined || part.encrypted !== undefined
      if (isSigned) warnings.lost(at, 'content that another vendor signed or encrypted was left out')
      if (part.text !== '') thoughts.push(part.text)
    }
    if (part.type === 'toolCall') {
      warnings.foreign(`${at}.`, part)
      if (part.signature !== undefined) warnings.lost(at, 'the signature of a call was left out')
      calls.push({ call: part, path: at })
    }
  }
  return { reasoning: thoughts.length === 0 ? undefined : thoughts.join('\n'), calls }
}
