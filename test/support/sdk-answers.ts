import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'

const answering = (bytes: Buffer) => async () =>
  new Response(bytes as never, { headers: { 'content-type': 'text/event-stream' } })

/** Complete responses as the vendors' SDKs assemble them from streams. */
export const GATHER = {
  'openai-chat': (bytes: Buffer) =>
    new OpenAI({ apiKey: 'x', maxRetries: 0, fetch: answering(bytes) }).chat.completions
      .stream({ model: 'x', messages: [] })
      .finalChatCompletion(),
  anthropic: (bytes: Buffer) =>
    new Anthropic({ apiKey: 'x', maxRetries: 0, fetch: answering(bytes) }).messages
      .stream({ model: 'x', max_tokens: 1, messages: [] })
      .finalMessage(),
  responses: (bytes: Buffer) =>
    new OpenAI({ apiKey: 'x', maxRetries: 0, fetch: answering(bytes) }).responses
      .stream({ model: 'x', input: '' })
      .finalResponse(),
  async gemini(bytes: Buffer) {
    const { models } = new GoogleGenAI({ apiKey: 'x', httpOptions: { fetch: answering(bytes) } })
    const parts: object[] = []
    let groundingMetadata: object | undefined
    for await (const { candidates } of await models.generateContentStream({ model: 'x', contents: 'x' })) {
      parts.push(...(candidates?.[0]?.content?.parts ?? []))
      groundingMetadata = candidates?.[0]?.groundingMetadata ?? groundingMetadata
    }
    return { candidates: [{ content: { role: 'model', parts }, groundingMetadata }] }
  },
} as const satisfies Record<string, (bytes: Buffer) => Promise<object>>
