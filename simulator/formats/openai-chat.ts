import {
  type AnswerChoice,
  type AnsweredCall,
  answer,
  countOpening,
  type OfferedTool,
  type SimulatedChat,
} from '../answer.ts'
import { isObject, textOf, type WireObject } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { steer } from '../steering.ts'
import { countTokens } from '../tokens.ts'
import type { Inquiry, Reply, StreamFrame } from './format.ts'
import { CHOICE_LIMIT, decodeCount, decodeRequest, missing, requestsUsage } from './openai-request.ts'
import { EVENT_STREAM, interleave, wrapChunks } from './openai-stream.ts'

/** The tokens of a part that is no text (an image, audio, a file). */
export const TOKENS_PER_MEDIA_PART = 85
const FINGERPRINT = 'fp_simulator'

/** The fields that every chunk and the whole answer share. */
type Envelope = { readonly id: string; readonly created: number; readonly model: string }

export function answerChat({ id, time, headers, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const ask = decodeAsk(request, model, steer('words', headers, model))
  const choices = Array.from({ length: decodeCount(request, 'n', CHOICE_LIMIT) ?? 1 }, (_, at) =>
    answer(ask, at),
  )
  const tokens = choices.reduce((sum, choice) => sum + choice.tokenCount, 0)
  const usage = encodeUsage(ask.promptTokens, tokens)
  const envelope = { id: `chatcmpl-${id}`, created: Math.floor(time.getTime() / 1000), model }
  const bill = { id: envelope.id, model, promptTokens: ask.promptTokens }
  if (request.stream !== true) {
    return { kind: 'whole', body: encodeWhole(envelope, choices, usage), tokens, bill }
  }
  const frames = encodeStream(envelope, choices, requestsUsage(request) ? usage : undefined)
  return { kind: 'stream', contentType: EVENT_STREAM, frames, bill }
}

/**
 * The tokens of the prompt: all texts of all messages, the names and arguments of earlier tool calls, and the tools and the
 * answer's schema as JSON. Roles and names of speakers are not counted.
 */
export function countPrompt(request: WireObject): number {
  let count = 0
  for (const message of messagesOf(request)) {
    for (const part of partsOf(message)) {
      const text = textOf(part) ?? textOf(objectOf(part).text) ?? textOf(objectOf(part).refusal)
      count += text === undefined ? TOKENS_PER_MEDIA_PART : countTokens(text)
    }
    for (const call of listOf(message.tool_calls)) {
      const { name, arguments: json, input } = objectOf(objectOf(call).function ?? objectOf(call).custom)
      count += countTokens(textOf(name) ?? '') + countTokens(textOf(json) ?? textOf(input) ?? '')
    }
  }
  if (listOf(request.tools).length > 0) count += countTokens(JSON.stringify(request.tools))
  const { json_schema: schema } = objectOf(request.response_format)
  return schema === undefined ? count : count + countTokens(JSON.stringify(schema))
}

export function decodeAsk(request: WireObject, model: string, words: number | undefined): SimulatedChat {
  const limits = [decodeCount(request, 'max_completion_tokens'), decodeCount(request, 'max_tokens')]
  return {
    model,
    words,
    promptTokens: countPrompt(request),
    lastMessage: lastMessageOf(messagesOf(request)),
    ...decodeTools(request),
    allowsParallelCalls: request.parallel_tool_calls !== false,
    json: decodeJson(request.response_format),
    maxTokens: Math.min(...limits.map(limit => limit ?? Number.POSITIVE_INFINITY)),
  }
}

function messagesOf({ messages }: WireObject): readonly WireObject[] {
  if (messages === undefined || messages === null) throw missing('messages')
  if (!Array.isArray(messages) || !messages.every(isObject)) {
    throw new ProviderError('wrong_type', "'messages' must be a list of objects.", 'messages')
  }
  if (messages.length === 0) throw new ProviderError('bad_value', "'messages' must not be empty.", 'messages')
  return messages
}

function partsOf({ content }: WireObject): readonly unknown[] {
  return Array.isArray(content) ? content : typeof content === 'string' ? [content] : []
}

function lastMessageOf(messages: readonly WireObject[]): SimulatedChat['lastMessage'] {
  const last = messages.at(-1)
  const isResult = last?.role === 'tool' || last?.role === 'function'
  const message = isResult ? last : messages.findLast(({ role }) => role === 'user')
  const parts = message === undefined ? [] : partsOf(message)
  const text = parts.map(part => textOf(part) ?? textOf(objectOf(part).text) ?? '').join(' ')
  return { by: isResult ? 'tool' : 'user', text }
}

function decodeTools(request: WireObject): Pick<SimulatedChat, 'tools' | 'toolMode'> {
  const offered = listOf(request.tools).flatMap(decodeTool)
  const choice = request.tool_choice
  if (choice === 'none' || choice === 'required') return { tools: offered, toolMode: choice }
  const { type, allowed_tools: allowed } = objectOf(choice)
  if (type === 'allowed_tools') {
    const names = listOf(objectOf(allowed).tools).map(nameOf)
    const toolMode = objectOf(allowed).mode === 'required' ? 'required' : 'auto'
    return { tools: offered.filter(({ name }) => names.includes(name)), toolMode }
  }
  if (type !== 'function' && type !== 'custom') return { tools: offered, toolMode: 'auto' }
  const tools = offered.filter(({ name }) => name === nameOf(choice))
  if (tools.length === 0)
    throw new ProviderError('bad_value', "'tool_choice' names no tool of 'tools'.", 'tool_choice')
  return { tools, toolMode: 'required' }
}

function decodeTool(tool: unknown): readonly OfferedTool[] {
  const name = nameOf(tool)
  if (name === undefined || name === '') return []
  const isCustom = objectOf(tool).type === 'custom'
  return [{ name, parameters: objectOf(objectOf(tool).function).parameters, isCustom }]
}

function nameOf(tool: unknown): string | undefined {
  const { function: own, custom } = objectOf(tool)
  return textOf(objectOf(own ?? custom).name)
}

function decodeJson(format: unknown): SimulatedChat['json'] {
  const { type, json_schema: jsonSchema } = objectOf(format)
  if (type === 'json_object') return { schema: undefined }
  return type === 'json_schema' ? { schema: objectOf(jsonSchema).schema } : undefined
}

function objectOf(value: unknown): WireObject {
  return isObject(value) ? value : {}
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function encodeUsage(promptTokens: number, completionTokens: number) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: 0,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  }
}

type Usage = ReturnType<typeof encodeUsage>

function finishReason({ isCut, calls }: AnswerChoice): string {
  if (isCut) return 'length'
  return calls.length > 0 ? 'tool_calls' : 'stop'
}

function callId({ id }: Envelope, choice: number, call: number): string {
  return `call_${id.slice('chatcmpl-'.length)}_${choice}_${call}`
}

function encodeWhole(envelope: Envelope, choices: readonly AnswerChoice[], usage: Usage): string {
  const { id, created, model } = envelope
  return JSON.stringify({
    id,
    object: 'chat.completion',
    created,
    model,
    choices: choices.map((choice, index) => ({
      index,
      message: encodeMessage(choice, (call: number) => callId(envelope, index, call)),
      logprobs: null,
      finish_reason: finishReason(choice),
    })),
    usage,
    service_tier: 'default',
    system_fingerprint: FINGERPRINT,
  })
}

function encodeMessage({ text, calls }: AnswerChoice, idOf: (call: number) => string) {
  const rest = { refusal: null, annotations: [] }
  if (calls.length === 0) return { role: 'assistant', content: text.join(''), ...rest }
  const toolCalls = calls.map((call, at) => ({ id: idOf(at), ...encodeCall(call, call.tokens.join('')) }))
  return { role: 'assistant', content: null, tool_calls: toolCalls, ...rest }
}

function encodeCall({ tool }: AnsweredCall, input: string) {
  if (tool.isCustom) return { type: 'custom', custom: { name: tool.name, input } }
  return { type: 'function', function: { name: tool.name, arguments: input } }
}

function* encodeStream(
  envelope: Envelope,
  choices: readonly AnswerChoice[],
  usage?: Usage,
): Generator<StreamFrame> {
  const { id, created, model } = envelope
  const common = { id, object: 'chat.completion.chunk', created, model }
  const { head, tail, close } = wrapChunks(
    { ...common, service_tier: 'default', system_fingerprint: FINGERPRINT },
    usage,
  )
  yield* interleave(choices.map((choice, index) => encodeChoice(choice, index, { envelope, head, tail })))
  yield* close()
}

type Chunk = { readonly envelope: Envelope; readonly head: string; readonly tail: string }

// Only the delta differs between chunks: the rest is built once, because this runs for every token.
function* encodeChoice(
  choice: AnswerChoice,
  index: number,
  { envelope, head, tail }: Chunk,
): Generator<StreamFrame> {
  const before = `${head}{"index":${index},"delta":`
  const after = `,"logprobs":null,"finish_reason":null}${tail}`
  const content = choice.calls.length > 0 ? 'null' : '""'
  yield { data: `${before}{"role":"assistant","content":${content},"refusal":null}${after}`, tokens: 0 }
  for (const token of choice.text) {
    yield { data: `${before}{"content":${JSON.stringify(token)}}${after}`, tokens: 1 }
  }
  for (const [at, call] of choice.calls.entries()) {
    const opening = JSON.stringify({ index: at, id: callId(envelope, index, at), ...encodeCall(call, '') })
    yield { data: `${before}{"tool_calls":[${opening}]}${after}`, tokens: countOpening(call) }
    const member = call.tool.isCustom ? '"custom":{"input":' : '"function":{"arguments":'
    for (const token of call.tokens) {
      const delta = `{"tool_calls":[{"index":${at},${member}${JSON.stringify(token)}}}]}`
      yield { data: `${before}${delta}${after}`, tokens: 1 }
    }
  }
  yield { data: `${before}{},"logprobs":null,"finish_reason":"${finishReason(choice)}"}${tail}`, tokens: 0 }
}
