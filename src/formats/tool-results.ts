import type { Message, Part, ToolResultPart } from './hub.ts'
import type { JsonObject } from './openai/value.ts'
import type { Warnings } from './warnings.ts'

type Writing = {
  readonly path: string
  readonly warnings: Warnings
  encode(parts: readonly Part[], path: string): readonly JsonObject[]
  messageOf(result: ToolResultPart, texts: readonly JsonObject[]): JsonObject
}

/** Where a result is a message of its own and holds text only; media follow as the user's. */
export function encodeResultMessages(
  message: Message,
  { path, warnings, encode, messageOf }: Writing,
): readonly JsonObject[] {
  const media: JsonObject[] = []
  const results = message.content
    .filter((part): part is ToolResultPart => part.type === 'toolResult')
    .map((result, index) => {
      const at = `${path}.content[${index}]`
      warnings.foreign(`${at}.`, result)
      if (result.isError) warnings.lost(`${at}.is_error`, 'has no counterpart and was left out')
      const encoded = encode(result.content, at)
      const others = encoded.filter(part => part.type !== 'text')
      if (others.length > 0)
        warnings.lost(`${at}.content`, 'media are sent as a message of the user after the results')
      media.push(...others)
      return messageOf(
        result,
        encoded.filter(part => part.type === 'text'),
      )
    })
  return media.length === 0 ? results : [...results, { role: 'user', content: media }]
}
