import type { ChatRequest, Message, Part } from './hub.ts'
import { isImage } from './media.ts'
import type { Warnings } from './warnings.ts'

const hasImage = ({ role, content }: Message): boolean => role === 'assistant' && content.some(isImage)

/**
 * Moves images of earlier answers to the end of the next message of the user, for vendors that accept images of the user
 * only. All other messages and parts keep their positions, by which warnings name them.
 */
export function withEarlierImages(request: ChatRequest, warnings: Warnings): ChatRequest {
  if (!request.messages.some(hasImage)) return request
  let images: readonly Part[] = []
  const messages = request.messages.map((message, index): Message => {
    const { role, content } = message
    if (hasImage(message)) {
      warnings.lost(`messages[${index}]`, 'images of an earlier answer are sent as images of the user')
      images = [...images, ...content.filter(isImage)]
      return { ...message, content: content.filter(part => !isImage(part)) }
    }
    if (role !== 'user' || images.length === 0) return message
    const extendedContent = [...content, ...images]
    images = []
    return { ...message, content: extendedContent }
  })
  return {
    ...request,
    messages: images.length === 0 ? messages : [...messages, { role: 'user', content: images }],
  }
}
