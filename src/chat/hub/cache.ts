import type { ChatRequest, Part } from './hub.ts'
import type { Warnings } from './warnings.ts'

/** For formats without cache marks: removes them, with one warning for all. */
export function withoutCacheMarks(request: ChatRequest, warnings: Warnings): ChatRequest {
  const isMarked =
    request.messages.some(({ content }) => content.some(isMarkedPart)) ||
    (request.tools?.some(tool => 'cache' in tool) ?? false)
  if (!isMarked) return request
  warnings.lost('cache_control', 'was left out: the provider decides what it caches')
  return {
    ...request,
    messages: request.messages.map(message => ({ ...message, content: message.content.map(unmarkedPart) })),
    ...(request.tools && { tools: request.tools.map(unmarked) }),
  }
}

function isMarkedPart(part: Part): boolean {
  return 'cache' in part || (part.type === 'toolResult' && part.content.some(isMarkedPart))
}

function unmarkedPart(part: Part): Part {
  const plain = unmarked(part)
  return plain.type === 'toolResult' ? { ...plain, content: plain.content.map(unmarkedPart) } : plain
}

function unmarked<T extends object>(source: T): T {
  if (!('cache' in source)) return source
  const { cache: _, ...rest } = source
  return rest as unknown as T
}
