import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { retryingFetch } from './client.ts'

/** What a test requests in any format: each client expresses it with its own SDK. */
export type Question = {
  readonly model: string
  readonly text: string
  readonly image?: boolean
  readonly tools?: readonly string[]
  readonly schema?: object
  readonly isThinking?: boolean
  /** Disconnects after the first text. */
  readonly isLeaving?: boolean
}

export type ClientAnswer = {
  readonly text: string
  readonly reasoning: string
  readonly calls: readonly { readonly id: string; readonly name: string; readonly input: string }[]
  readonly input: number
  readonly output: number
  readonly stop: string
  /** The model that the response names. */
  readonly model: string
  /** What the client sends back when the conversation continues. */
  readonly turn: unknown
}

/** The results of all calls of a turn. */
export type Results = { readonly question: Question; readonly told: ClientAnswer }

export type FormatClient = {
  readonly format: 'openai-chat' | 'anthropic' | 'responses' | 'gemini'
  /** The finish reason of a complete response. */
  readonly stops: { readonly whole: string; readonly tools: string }
  whole(question: Question, results?: Results): Promise<ClientAnswer>
  stream(question: Question, results?: Results): Promise<ClientAnswer>
}

const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const LIMIT = 4_000
const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } as const
export const resultOf = (name: string) => `${name} has an answer`

// biome-ignore lint/suspicious/noExplicitAny: a test uses three SDKs whose types have nothing in common
type Loose = any

function chatClient(apiKey: string, url: string): FormatClient {
  const api = new OpenAI({ apiKey, baseURL: `${url}/v1`, fetch: retryingFetch, maxRetries: 0 })
  const bodyOf = ({ model, text, image, tools, schema, isThinking }: Question, results?: Results): Loose => ({
    model,
    max_completion_tokens: LIMIT,
    messages: [
      {
        role: 'user',
        content: image
          ? [
              { type: 'text', text },
              { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}` } },
            ]
          : text,
      },
      ...(results
        ? [
            results.told.turn,
            ...results.told.calls.map(({ id, name }) => ({
              role: 'tool',
              tool_call_id: id,
              content: resultOf(name),
            })),
          ]
        : []),
    ],
    ...(tools && {
      tools: tools.map(name => ({ type: 'function', function: { name, parameters: PARAMETERS } })),
    }),
    ...(schema && { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema } } }),
    ...(isThinking && { reasoning_effort: 'high' }),
  })
  const replyOf = (message: Loose, { usage, model }: Loose, stop: string): ClientAnswer => ({
    text: message.content ?? '',
    reasoning: message.reasoning_content ?? '',
    calls: (message.tool_calls ?? []).map((call: Loose) => ({
      id: call.id,
      name: call.function.name,
      input: call.function.arguments,
    })),
    input: usage.prompt_tokens,
    output: usage.completion_tokens,
    stop,
    model,
    turn: message,
  })
  return {
    format: 'openai-chat',
    stops: { whole: 'stop', tools: 'tool_calls' },
    async whole(question, results) {
      const answer: Loose = await api.chat.completions.create(bodyOf(question, results))
      const [choice] = answer.choices
      return replyOf(choice.message, answer, choice.finish_reason)
    },
    async stream(question, results) {
      const leaving = new AbortController()
      const { signal } = leaving
      const stream: Loose = await api.chat.completions.create(
        { ...bodyOf(question, results), stream: true, stream_options: { include_usage: true } },
        { signal },
      )
      const message: Loose = { role: 'assistant', content: '' }
      let usage: Loose = {}
      let model = ''
      let stop = ''
      for await (const chunk of stream) {
        usage = chunk.usage ?? usage
        model = chunk.model
        const [choice] = chunk.choices
        stop = choice?.finish_reason ?? stop
        const { content, reasoning_content, reasoning_details, tool_calls } = choice?.delta ?? {}
        message.content += content ?? ''
        if (content && question.isLeaving) leaving.abort()
        if (reasoning_content)
          message.reasoning_content = (message.reasoning_content ?? '') + reasoning_content
        if (reasoning_details)
          message.reasoning_details = [...(message.reasoning_details ?? []), ...reasoning_details]
        for (const call of tool_calls ?? []) {
          message.tool_calls ??= []
          const existingCall = message.tool_calls[call.index]
          if (existingCall) existingCall.function.arguments += call.function.arguments ?? ''
          else message.tool_calls[call.index] = { ...call, function: { ...call.function } }
        }
      }
      return replyOf(message, { usage, model }, stop)
    },
  }
}

function messagesClient(apiKey: string, url: string): FormatClient {
  const api = new Anthropic({ apiKey, baseURL: url, fetch: retryingFetch, maxRetries: 0 })
  const bodyOf = ({ model, text, image, tools, schema, isThinking }: Question, results?: Results): Loose => ({
    model,
    max_tokens: LIMIT,
    messages: [
      {
        role: 'user',
        content: image
          ? [
              { type: 'text', text },
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } },
            ]
          : text,
      },
      ...(results
        ? [
            { role: 'assistant', content: results.told.turn },
            {
              role: 'user',
              content: results.told.calls.map(({ id, name }) => ({
                type: 'tool_result',
                tool_use_id: id,
                content: resultOf(name),
              })),
            },
          ]
        : []),
    ],
    ...(tools && { tools: tools.map(name => ({ name, input_schema: PARAMETERS })) }),
    ...(schema && { output_config: { format: { type: 'json_schema', schema } } }),
    ...(isThinking && { thinking: { type: 'enabled', budget_tokens: 2_000 } }),
  })
  const replyOf = (message: Loose): ClientAnswer => ({
    text: message.content.map((block: Loose) => block.text ?? '').join(''),
    reasoning: message.content.map((block: Loose) => block.thinking ?? '').join(''),
    calls: message.content
      .filter((block: Loose) => block.type === 'tool_use')
      .map((block: Loose) => ({ id: block.id, name: block.name, input: JSON.stringify(block.input) })),
    input:
      message.usage.input_tokens +
      (message.usage.cache_read_input_tokens ?? 0) +
      (message.usage.cache_creation_input_tokens ?? 0),
    output: message.usage.output_tokens,
    stop: message.stop_reason,
    model: message.model,
    turn: message.content,
  })
  return {
    format: 'anthropic',
    stops: { whole: 'end_turn', tools: 'tool_use' },
    whole: async (question, results) => replyOf(await api.messages.create(bodyOf(question, results))),
    stream: async (question, results) => {
      const leaving = new AbortController()
      const { signal } = leaving
      const stream = api.messages.stream(bodyOf(question, results), { signal })
      if (question.isLeaving) stream.on('text', () => leaving.abort())
      return replyOf(await stream.finalMessage())
    },
  }
}

function responsesClient(apiKey: string, url: string): FormatClient {
  const api = new OpenAI({ apiKey, baseURL: `${url}/v1`, fetch: retryingFetch, maxRetries: 0 })
  const bodyOf = ({ model, text, image, tools, schema, isThinking }: Question, results?: Results): Loose => ({
    model,
    store: false,
    max_output_tokens: LIMIT,
    input: [
      {
        role: 'user',
        content: image
          ? [
              { type: 'input_text', text },
              { type: 'input_image', image_url: `data:image/png;base64,${PIXEL}`, detail: 'auto' },
            ]
          : text,
      },
      ...(results
        ? [
            ...(results.told.turn as Loose[]),
            ...results.told.calls.map(({ id, name }) => ({
              type: 'function_call_output',
              call_id: id,
              output: resultOf(name),
            })),
          ]
        : []),
    ],
    ...(tools && {
      tools: tools.map(name => ({ type: 'function', name, parameters: PARAMETERS, strict: false })),
    }),
    ...(schema && { text: { format: { type: 'json_schema', name: 'answer', schema } } }),
    ...(isThinking && {
      reasoning: { effort: 'high', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
    }),
  })
  const replyOf = (response: Loose): ClientAnswer => ({
    text: response.output
      .flatMap((item: Loose) => (item.type === 'message' ? item.content : []))
      .map((part: Loose) => part.text ?? '')
      .join(''),
    reasoning: response.output
      .flatMap((item: Loose) => (item.type === 'reasoning' ? item.summary : []))
      .map((part: Loose) => part.text)
      .join(''),
    calls: response.output
      .filter((item: Loose) => item.type === 'function_call')
      .map((item: Loose) => ({ id: item.call_id, name: item.name, input: item.arguments })),
    input: response.usage.input_tokens,
    output: response.usage.output_tokens,
    stop: response.status,
    model: response.model,
    turn: response.output,
  })
  return {
    format: 'responses',
    stops: { whole: 'completed', tools: 'completed' },
    whole: async (question, results) => replyOf(await api.responses.create(bodyOf(question, results))),
    async stream(question, results) {
      const leaving = new AbortController()
      const { signal } = leaving
      const stream: Loose = await api.responses.create(
        { ...bodyOf(question, results), stream: true },
        { signal },
      )
      let text = ''
      let response: Loose
      for await (const event of stream) {
        if (event.type === 'response.output_text.delta') {
          text += event.delta
          if (question.isLeaving) leaving.abort()
        }
        if (event.type === 'response.completed' || event.type === 'response.incomplete')
          response = event.response
      }
      if (response === undefined) throw new Error('the stream had no end')
      const whole = replyOf(response)
      if (whole.text !== text) throw new Error('the deltas are not the answer')
      return whole
    },
  }
}

function geminiClient(apiKey: string, url: string): FormatClient {
  const api = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url, fetch: retryingFetch } })
  const bodyOf = ({ model, text, image, tools, schema, isThinking }: Question, results?: Results): Loose => ({
    model,
    contents: [
      {
        role: 'user',
        parts: [{ text }, ...(image ? [{ inlineData: { mimeType: 'image/png', data: PIXEL } }] : [])],
      },
      ...(results
        ? [
            { role: 'model', parts: results.told.turn },
            {
              role: 'user',
              parts: results.told.calls.map(({ id, name }) => ({
                functionResponse: { ...(id && { id }), name, response: { result: resultOf(name) } },
              })),
            },
          ]
        : []),
    ],
    config: {
      maxOutputTokens: LIMIT,
      ...(tools && {
        tools: [{ functionDeclarations: tools.map(name => ({ name, parametersJsonSchema: PARAMETERS })) }],
      }),
      ...(schema && { responseMimeType: 'application/json', responseJsonSchema: schema }),
      ...(isThinking && { thinkingConfig: { thinkingBudget: 2_000, includeThoughts: true } }),
    },
  })
  const replyOf = (parts: readonly Loose[], last: Loose): ClientAnswer => ({
    text: parts.map(part => (part.thought ? '' : (part.text ?? ''))).join(''),
    reasoning: parts.map(part => (part.thought ? part.text : '')).join(''),
    calls: parts
      .filter(part => part.functionCall)
      .map(({ functionCall: { id, name, args } }) => ({ id, name, input: JSON.stringify(args) })),
    input: last.usageMetadata.promptTokenCount,
    output: (last.usageMetadata.candidatesTokenCount ?? 0) + (last.usageMetadata.thoughtsTokenCount ?? 0),
    stop: last.candidates[0].finishReason,
    model: last.modelVersion,
    turn: parts,
  })
  return {
    format: 'gemini',
    stops: { whole: 'STOP', tools: 'STOP' },
    async whole(question, results) {
      const answer: Loose = await api.models.generateContent(bodyOf(question, results))
      return replyOf(answer.candidates[0].content.parts, answer)
    },
    async stream(question, results) {
      const leaving = new AbortController()
      const body = bodyOf(question, results)
      const stream: Loose = await api.models.generateContentStream({
        ...body,
        config: { ...body.config, abortSignal: leaving.signal },
      })
      const parts: Loose[] = []
      let last: Loose
      for await (const chunk of stream) {
        last = chunk
        parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []))
        if (question.isLeaving && parts.some(({ text }) => text)) leaving.abort()
      }
      return replyOf(parts, last)
    },
  }
}

export const CLIENTS = {
  'openai-chat': chatClient,
  anthropic: messagesClient,
  responses: responsesClient,
  gemini: geminiClient,
} as const
