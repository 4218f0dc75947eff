import type { JsonObject } from '../../../domain/json-value.ts'
import type { Message, Part, ToolResultPart } from '../hub.ts'
import type { Warnings } from '../warnings.ts'

/** The text and the media of a tool result. */
type EncodedContent<Text, Medium> = { readonly text: Text; readonly media: readonly Medium[] }

type Writing<Text, Medium> = {
  readonly path: string
  readonly warnings: Warnings
  encode(parts: readonly Part[], path: string): EncodedContent<Text, Medium>
  messageOf(result: ToolResultPart, text: Text): JsonObject
  showing(media: readonly Medium[]): JsonObject
}

/** For formats whose results are messages of their own with text only: media follow in a user message. */
export function encodeResultMessages<Text, Medium>(
  message: Message,
  { path, warnings, encode, messageOf, showing }: Writing<Text, Medium>,
): readonly JsonObject[] {
  const mediaMessages: Medium[] = []
  const results = message.content
    .filter((part): part is ToolResultPart => part.type === 'toolResult')
    .map((result, index) => {
      const at = `${path}.content[${index}]`
      warnings.foreign(`${at}.`, result)
      if (result.isError) warnings.unsupported(`${at}.is_error`)
      const { text, media } = encode(result.content, at)
      if (media.length > 0)
        warnings.lost(`${at}.content`, 'media are sent as a message of the user after the results')
      mediaMessages.push(...media)
      return messageOf(result, text)
    })
  return mediaMessages.length === 0 ? results : [...results, showing(mediaMessages)]
}

const isText = (part: JsonObject): boolean => part.type === 'text'

/** For formats whose parts have a `type` member. */
export const byType = (parts: readonly JsonObject[]): EncodedContent<readonly JsonObject[], JsonObject> => ({
  text: parts.filter(isText),
  media: parts.filter(part => !isText(part)),
})
