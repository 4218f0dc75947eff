/** The request of every bench and the responses of its providers. */
export const MODEL = 'gpt-4o-mini'
export const STREAM_MODEL = 'gpt-4o'
export const STREAM = { chunks: 50, paceMs: 20 }

const messages = [{ role: 'user', content: 'Hello, how are you?' }]

export const QUESTION = JSON.stringify({ model: MODEL, messages })
export const STREAM_QUESTION = JSON.stringify({
  model: STREAM_MODEL,
  messages,
  stream: true,
  stream_options: { include_usage: true },
})

const usage = { prompt_tokens: 12, completion_tokens: STREAM.chunks, total_tokens: 12 + STREAM.chunks }

export const ANSWER = JSON.stringify({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: MODEL,
  choices: [
    { index: 0, message: { role: 'assistant', content: 'I am well, thank you.' }, finish_reason: 'stop' },
  ],
  usage: { prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 },
})

const eventOf = (choices: readonly unknown[], more: object = {}) =>
  `data: ${JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: STREAM_MODEL,
    choices,
    ...more,
  })}\n\n`

export const wordEvent = (content: string): string =>
  eventOf([{ index: 0, delta: { content }, finish_reason: null }])

export const lastEvents = (): string =>
  `${eventOf([{ index: 0, delta: {}, finish_reason: 'stop' }])}${eventOf([], { usage })}data: [DONE]\n\n`
