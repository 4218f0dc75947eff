import { countMessages, countResponses, GEMINI_METHODS, messages, responses } from './chats.ts'
import { EMBEDDING_METHODS, embeddings } from './embeddings.ts'
import { imageEdits, imageGenerations, imageVariations } from './images.ts'
import { moderation } from './moderation.ts'
import { chat, completions } from './openai.ts'
import type { OperationSpec } from './operation.ts'
import { rerank } from './rerank.ts'
import { speech } from './speech.ts'
import { transcription, translation } from './transcription.ts'

export { ERROR_FORMATS } from './chats.ts'

/** The operations of `/v1`, by path. */
const OPERATIONS: Readonly<Record<string, OperationSpec>> = {
  '/v1/chat/completions': chat,
  '/v1/messages': messages,
  '/v1/messages/count_tokens': countMessages,
  '/v1/responses': responses,
  '/v1/responses/input_tokens': countResponses,
  '/v1/completions': completions,
  '/v1/embeddings': embeddings,
  '/v1/audio/speech': speech,
  '/v1/audio/transcriptions': transcription,
  '/v1/audio/translations': translation,
  '/v1/moderations': moderation,
  '/v1/rerank': rerank,
  '/v2/rerank': rerank,
  '/v1/images/generations': imageGenerations,
  '/v1/images/edits': imageEdits,
  '/v1/images/variations': imageVariations,
}

/** The paths of the operations, except those with a method after the model's name. */
export const PATHS: readonly string[] = Object.keys(OPERATIONS)

export const SPECS: readonly OperationSpec[] = [...new Set(Object.values(OPERATIONS))]

/** Operations whose method follows a model's name in the path. */
const METHODS = { ...GEMINI_METHODS, ...EMBEDDING_METHODS }
const METHOD = /^\/v1(?:beta)?\/models\/(.+):(\w+)$/

/** The operation at a path, or of the method after a model's name in the path. */
export function operationAt(path: string, url = ''): OperationSpec | undefined {
  if (Object.hasOwn(OPERATIONS, path)) return OPERATIONS[path]
  const [, model = '', method = ''] = METHOD.exec(path) ?? []
  if (!Object.hasOwn(METHODS, method)) return undefined
  const isEvents = new URLSearchParams(url.split('?')[1]).get('alt') === 'sse'
  return METHODS[method]?.(unescaped(model), isEvents)
}

/** A name with an invalid percent escape stays as it is, and is refused later as an unknown model. */
function unescaped(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}
