/** The operations of the relay (docs/reference/relay-api.md: Relay routes), in the order in which documents list them. */
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
