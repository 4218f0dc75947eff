/** What a client can ask a model to do, in the order in which documents list it. */
export const OPERATIONS = [
  'chat',
  'completions',
  'embeddings',
  'speech',
  'transcription',
  'translation',
  'moderation',
  'rerank',
  'images',
  'videos',
] as const

export type Operation = (typeof OPERATIONS)[number]
