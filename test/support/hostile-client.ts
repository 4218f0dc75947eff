import { retryingFetch } from './client.ts'
import type { EngineName } from './gateway.ts'
import { openMedia } from './media.ts'
import { startReplay } from './replay.ts'

type Fields = Readonly<Record<string, unknown>>

const USAGE = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }

/** A response with the fields of every format: each client reads the part that it knows. */
const ANSWER = {
  id: 'answer-1',
  object: 'response',
  type: 'message',
  role: 'assistant',
  status: 'completed',
  created_at: 1_700_000_000,
  stop_reason: 'end_turn',
  content: [{ type: 'text', text: 'Good.' }],
  choices: [
    { index: 0, text: 'Good.', message: { role: 'assistant', content: 'Good.' }, finish_reason: 'stop' },
  ],
  output: [
    {
      type: 'message',
      id: 'msg-1',
      status: 'completed',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'Good.', annotations: [] }],
    },
  ],
  candidates: [{ content: { role: 'model', parts: [{ text: 'Good.' }] }, finishReason: 'STOP', index: 0 }],
  usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2, totalTokenCount: 7 },
  embedding: { values: [0.1, 0.2] },
  embeddings: [{ values: [0.1, 0.2] }],
  data: [{ index: 0, embedding: [0.1, 0.2], url: 'https://img.example/a.png' }],
  results: [
    {
      index: 0,
      relevance_score: 0.5,
      flagged: false,
      categories: { hate: false },
      category_scores: { hate: 0 },
    },
  ],
  text: 'Good.',
}

const POSTS = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/responses',
  '/v1/messages',
  '/v1/embeddings',
  '/v1/moderations',
  '/v1/rerank',
  '/v1/images/generations',
  '/v1/images/edits',
  '/v1/videos',
  '/v1/audio/transcriptions',
  '/v1/audio/translations',
  '/v1/images/variations',
  ...['generateContent', 'embedContent', 'batchEmbedContents'].map(
    method => `/v1beta/models/seen-as:${method}`,
  ),
]

const usageAt = (path: string) =>
  /messages|responses/.test(path) ? { ...USAGE, input_tokens: 5, output_tokens: 2 } : USAGE

const SPEECH = '/v1/audio/speech'

/** A provider that accepts and records every request. */
export async function startTakingProvider() {
  const provider = await startReplay()
  provider.play([
    ...POSTS.map(path => ({
      method: 'POST',
      path,
      answer: () => ({ body: { ...ANSWER, usage: usageAt(path) } }),
    })),
    { method: 'POST', path: SPEECH, answer: () => ({ type: 'audio/mpeg', body: 'a sound' }) },
    { method: 'GET', path: `/v1/videos/${ANSWER.id}`, answer: () => ({ body: { status: 'failed' } }) },
  ])
  return provider
}

/**
 * A gateway with a provider that accepts and records every request: what arrives there is what would have
 * run.
 */
export async function openHostileClient(engine: EngineName = 'sqlite') {
  const media = await openMedia(engine)
  const provider = await startTakingProvider()

  return {
    ...media,
    /** What was posted to the provider; it also receives polls of video jobs. */
    posted: () => provider.seen.filter(({ method }) => method === 'POST'),
    provider,
    /** A separate model at the provider, and a token that may use nothing else. */
    async offerTo(channel: Fields = {}, price: Fields = { input: 1, output: 2 }) {
      const { model } = await media.offer('seen-as', price, { base_url: provider.url, ...channel })
      const { id, key } = await media.open({ model_limits_enabled: true, models: [model] })
      return { model, tokenId: id, key }
    },
    /** Posts raw bytes, for bodies that an object cannot express. */
    async postText(path: string, key: string, text: string, headers: Readonly<Record<string, string>> = {}) {
      const response = await retryingFetch(`${media.gateway.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
        body: text,
      })
      const responseText = await response.text()
      return {
        status: response.status,
        headers: response.headers,
        text: responseText,
        body: JSON.parse(responseText.startsWith('{') ? responseText : 'null'),
      }
    },
    async close(): Promise<void> {
      await media.gateway.close()
      provider.close()
    },
  }
}

export type HostileClient = Awaited<ReturnType<typeof openHostileClient>>
