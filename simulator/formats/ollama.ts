import { type AnswerChoice, answer, countOpening, type SimulatedChat } from '../answer.ts'
import { isObject, type WireObject } from '../json.ts'
import { MODELS } from '../models.ts'
import { steer } from '../steering.ts'
import { splitTokens } from '../tokens.ts'
import type { Inquiry, Protocol, Reply, StreamFrame } from './format.ts'
import { decodeAsk } from './openai-chat.ts'
import { decodeRequest } from './openai-request.ts'
import { thoughtFor } from './thought.ts'

/** The part of a prompt that fits into the context length. */
const USUAL_CONTEXT = 4_096

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

function askOf(request: WireObject, model: string, headers: Inquiry['headers']): SimulatedChat {
  const { options, format, messages } = request
  const parameters = isObject(options) ? options : {}
  const isSchema = isObject(format)
  return decodeAsk(
    {
      tools: request.tools,
      messages: Array.isArray(messages) ? messages.map(messageOf) : messages,
      ...(typeof parameters.num_predict === 'number' && { max_tokens: parameters.num_predict }),
      ...(format === 'json' && { response_format: { type: 'json_object' } }),
      ...(isSchema && { response_format: { type: 'json_schema', json_schema: { schema: format } } }),
    },
    model,
    steer('words', headers, model),
  )
}

/** Images are beside the text, and arguments are objects. */
function messageOf(message: unknown): unknown {
  if (!isObject(message)) return message
  const calls = listOf(message.tool_calls).map(call => {
    const functionCall = isObject(call) && isObject(call.function) ? call.function : {}
    return { function: { name: functionCall.name, arguments: JSON.stringify(functionCall.arguments) } }
  })
  const images = listOf(message.images).map(() => ({ type: 'image_url' }))
  return { role: message.role, content: [message.content ?? '', ...images], tool_calls: calls }
}

function chat({ time, headers, body, id }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const ask = askOf(request, model, headers)
  const choice = answer(ask, 0)
  const options = isObject(request.options) ? request.options : {}
  const room = typeof options.num_ctx === 'number' ? options.num_ctx : USUAL_CONTEXT
  const thought = request.think ? splitTokens(thoughtFor(ask)) : []
  const tokens = choice.tokenCount + thought.length
  const common = { model, created_at: time.toISOString() }
  const last = {
    done: true,
    done_reason: choice.isCut ? 'length' : 'stop',
    total_duration: 2_000_000,
    prompt_eval_count: Math.min(ask.promptTokens, room),
    eval_count: tokens,
  }
  const bill = { id, model, promptTokens: last.prompt_eval_count }
  // It streams by default.
  if (request.stream !== false) {
    const frames = stream({ choice, thought }, common, last)
    return { kind: 'stream', contentType: 'application/x-ndjson', frames, bill }
  }
  const thinking = thought.length > 0 ? { thinking: thought.join('') } : {}
  const message = { role: 'assistant', content: choice.text.join(''), ...thinking, ...callsOf(choice) }
  const whole = JSON.stringify({ ...common, message, ...last })
  return { kind: 'whole', body: whole, tokens, bill }
}

/** Calls are complete; one that was cut has lost its arguments. */
function callsOf({ calls }: AnswerChoice) {
  if (calls.length === 0) return {}
  return {
    tool_calls: calls.map(({ tool, tokens }) => ({
      function: { name: tool.name, arguments: objectIn(tokens.join('')) },
    })),
  }
}

function objectIn(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return {}
  }
}

type Completion = { readonly choice: AnswerChoice; readonly thought: readonly string[] }

function* stream(
  { choice, thought }: Completion,
  common: WireObject,
  last: WireObject,
): Generator<StreamFrame> {
  const line = (message: WireObject, rest: WireObject = { done: false }) =>
    `${JSON.stringify({ ...common, message: { role: 'assistant', ...message }, ...rest })}\n`
  for (const thinking of thought) yield { data: line({ content: '', thinking }), tokens: 1 }
  for (const content of choice.text) yield { data: line({ content }), tokens: 1 }
  if (choice.calls.length > 0) {
    const tokens = choice.calls.reduce((sum, call) => sum + countOpening(call) + call.tokens.length, 0)
    yield { data: line({ content: '', ...callsOf(choice) }), tokens }
  }
  yield { data: line({ content: '' }, last), tokens: 0 }
}

function tags(): Reply {
  const models = MODELS.map(({ id }) => ({ name: id, model: id, size: 1 }))
  return { kind: 'free', body: JSON.stringify({ models }) }
}

/** Ollama's own protocol; errors are one string, and any key is accepted. */
export const ollama = {
  name: 'Ollama',
  keyOf: headers => /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1] ?? 'none',
  routes: [
    { method: 'POST', path: /^\/ollama\/api\/chat$/, answer: chat },
    { method: 'GET', path: /^\/ollama\/api\/tags$/, answer: tags },
  ],
  encodeRefusal: ({ message }) => JSON.stringify({ error: message }),
  encodeFailure: ({ message }) => JSON.stringify({ error: message }),
  errorEvent: body => `${body}\n`,
  framing: {
    read: data => JSON.parse(String(data)) as WireObject,
    write: json => `${JSON.stringify(json)}\n`,
  },
} satisfies Protocol
