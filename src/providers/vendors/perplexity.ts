import { bearer } from '../auth.ts'
import type { Provider } from '../provider.ts'

// Streams have cumulative usage and sometimes a cumulative `message` beside the delta, and end without [DONE]. Embeddings are
// base64 of signed bytes, not of floats. Deep research counts reasoning and citation tokens separately.
export const perplexity = {
  type: 27,
  name: 'Perplexity',
  baseUrl: 'https://api.perplexity.ai',
  auth: bearer,
  chat: { 'openai-chat': '/chat/completions' },
  // One model, of another maker, does not search.
  alwaysSearches: /^(?!r1-)/,
  embeddings: { native: '/v1/embeddings' },
  usage: { reasoningOutside: true },
  keyHint: 'pplx-…',
} satisfies Provider
