import { bearer } from '../auth.ts'
import type { Provider } from '../provider.ts'

// Streams tell cumulative usage and sometimes a cumulative `message` beside the delta, and end without
// [DONE]. Embeddings are base64 of signed bytes, not of floats. Deep research counts its reasoning and what it cites beside
// the other tokens.
export const perplexity = {
  type: 27,
  name: 'Perplexity',
  baseUrl: 'https://api.perplexity.ai',
  auth: bearer,
  chat: { 'openai-chat': '/chat/completions' },
  // One model of another maker answers without a search.
  alwaysSearches: /^(?!r1-)/,
  embeddings: { native: '/v1/embeddings' },
  usage: { reasoningOutside: true },
  keyHint: 'pplx-…',
} satisfies Provider
