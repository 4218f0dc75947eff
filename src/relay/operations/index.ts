import { countMessages, messages, responses } from './chats.ts'
import { imageEdits, imageGenerations, imageVariations } from './images.ts'
import { moderation } from './moderation.ts'
import { chat, completions, embeddings } from './openai.ts'
import type { OperationSpec } from './operation.ts'
import { rerank } from './rerank.ts'
import { speech } from './speech.ts'
import { transcription, translation } from './transcription.ts'

/** What `/v1` takes, by path. */
const OPERATIONS: Readonly<Record<string, OperationSpec>> = {
  '/v1/chat/completions': chat,
  '/v1/messages': messages,
  '/v1/messages/count_tokens': countMessages,
  '/v1/responses': responses,
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

export const SPECS: readonly OperationSpec[] = [...new Set(Object.values(OPERATIONS))]

export const operationAt = (path: string): OperationSpec | undefined =>
  Object.hasOwn(OPERATIONS, path) ? OPERATIONS[path] : undefined
