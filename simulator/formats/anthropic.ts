import type { IncomingHttpHeaders } from 'node:http'
import { type AnswerChoice, answer, countOpening, type OfferedTool, type SimulatedChat } from '../answer.ts'
import { isObject, textOf, type WireObject } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { steer } from '../steering.ts'
import { countTokens, splitTokens } from '../tokens.ts'
import type { Failure, Inquiry, Protocol, Reply, StreamFrame } from './format.ts'
import { TOKENS_PER_MEDIA_PART } from './openai-chat.ts'
import { decodeCount, decodeRequest, missing } from './openai-request.ts'
import { EVENT_STREAM } from './openai-stream.ts'
import { searchesFor, searchUnits } from './searches.ts'
import { cacheShares, signatureOf, thoughtFor } from './thought.ts'

/** Anthropic's Messages, under a prefix of its own, because the model lists of both vendors have the same path. */
export const anthropic = {
  name: 'Anthropic',
  keyOf: keyIn,
  routes: [
    { method: 'POST', path: /^\/anthropic\/v1\/messages$/, answer: answerMessages },
    { method: 'POST', path: /^\/anthropic\/v1\/messages\/count_tokens$/, answer: countMessages },
    { method: 'GET', path: /^\/anthropic\/v1\/models$/, answer: listModels },
  ],
  encodeRefusal: ({ status, message }) => encodeError(status, message),
  encodeFailure,
  errorEvent: body => `event: error\ndata: ${body}\n\n`,
} satisfies Protocol

function keyIn(headers: IncomingHttpHeaders): string | undefined {
  const key = headers['x-api-key']
  if (typeof key === 'string' && key !== '') return key
  return /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
}

const objectOf = (value: unknown): WireObject => (isObject(value) ? value : {})
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
const blocksOf = (content: unknown): readonly WireObject[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : listOf(content).map(objectOf)

function messagesOf({ messages }: WireObject): readonly WireObject[] {
  if (messages === undefined) throw missing('messages')
  if (!Array.isArray(messages) || messages.length === 0 || !messages.every(isObject))
    throw new ProviderError('wrong_type', 'messages: Input should be a valid list', 'messages')
  return messages
}

/** Rules that other vendors do not have. */
function check(request: WireObject, { headers }: Inquiry): void {
  if (headers['anthropic-version'] === undefined)
    throw new ProviderError('missing_field', 'anthropic-version: header is required', null)
  if (request.max_tokens === undefined)
    throw new ProviderError('missing_field', 'max_tokens: Field required', 'max_tokens')
  const turns = messagesOf(request)
  if (turns[0]?.role !== 'user')
    throw new ProviderError('bad_value', 'messages: first message must use the "user" role', 'messages')
  const calling = turns.at(-2)
  const isThinking = ['enabled', 'adaptive'].includes(String(objectOf(request.thinking).type))
  const [first, ...others] = blocksOf(calling?.content)
  if (
    isThinking &&
    [first, ...others].some(block => block?.type === 'tool_use') &&
    first?.type !== 'thinking'
  )
    throw new ProviderError('bad_value', 'messages: Expected `thinking`, but found `tool_use`', 'messages')
  const open = new Set<unknown>()
  for (const turn of turns) {
    const blocks = blocksOf(turn.content)
    for (const block of blocks) {
      if (block.type === 'text' && block.text === '')
        throw new ProviderError('bad_value', 'messages: text content blocks must be non-empty', 'messages')
      if (block.type === 'thinking' && block.signature !== signatureOf(textOf(block.thinking) ?? ''))
        throw new ProviderError('bad_value', 'messages: Invalid `signature` in `thinking` block', 'messages')
      if (block.type === 'tool_result' && !open.delete(block.tool_use_id))
        throw new ProviderError(
          'bad_value',
          'messages: unexpected `tool_use_id` in `tool_result`',
          'messages',
        )
    }
    if (open.size > 0 && turn.role === 'user')
      throw new ProviderError(
        'bad_value',
        'messages: `tool_use` ids without `tool_result` blocks',
        'messages',
      )
    for (const { type, id } of blocks) if (type === 'tool_use') open.add(id)
  }
}

export function answerMessages(inquiry: Inquiry): Reply {
  const { id, headers, body } = inquiry
  const { request, model } = decodeRequest(body)
  check(request, inquiry)
  const searches = searchesFor(request, headers, model)
  const plainAsk = decodeAsk(request, model, steer('words', headers, model))
  const ask = { ...plainAsk, promptTokens: plainAsk.promptTokens + searches.tokens }
  const choice = answer(ask, 0)
  const thought =
    objectOf(request.thinking).type === 'enabled' || objectOf(request.thinking).type === 'adaptive'
  const completion: Completion = {
    id: `msg_${id}`,
    model,
    choice,
    ask,
    searches: searches.count,
    thought: thought ? splitTokens(thoughtFor(ask)) : [],
  }
  const tokens = choice.tokenCount + completion.thought.length
  const bill = { id: completion.id, model, promptTokens: ask.promptTokens, ...searchUnits(searches) }
  if (request.stream !== true) return { kind: 'whole', body: encodeWhole(completion), tokens, bill }
  return { kind: 'stream', contentType: EVENT_STREAM, frames: encodeStream(completion), bill }
}

function countMessages(inquiry: Inquiry): Reply {
  const { request } = decodeRequest(inquiry.body)
  return { kind: 'free', body: JSON.stringify({ input_tokens: countPrompt(request) }) }
}

function listModels(): Reply {
  const data = ['sim-claude', 'sim-small'].map(id => ({ type: 'model', id, display_name: id }))
  return { kind: 'free', body: JSON.stringify({ data, has_more: false }) }
}

/** By the same rule as in the other formats: all texts, calls, tools and schemas; an image is a constant. */
function countPrompt(request: WireObject): number {
  const countBlock = (block: WireObject): number => {
    switch (block.type) {
      case 'text':
        return countTokens(textOf(block.text) ?? '')
      case 'thinking':
        return countTokens(textOf(block.thinking) ?? '')
      case 'tool_use':
        return countTokens(textOf(block.name) ?? '') + countTokens(JSON.stringify(block.input ?? {}))
      case 'tool_result':
        return blocksOf(block.content).reduce((sum, each) => sum + countBlock(each), 0)
      default:
        return TOKENS_PER_MEDIA_PART
    }
  }
  const blocks = [request.system, ...messagesOf(request).map(({ content }) => content)].flatMap(blocksOf)
  let count = blocks.reduce((sum, block) => sum + countBlock(block), 0)
  if (listOf(request.tools).length > 0) count += countTokens(JSON.stringify(request.tools))
  const schema = schemaIn(request)
  return schema === undefined ? count : count + countTokens(JSON.stringify(schema))
}

/** `output_format`: the name of the beta `structured-outputs-2025-11-13`. */
const schemaIn = ({ output_config: config, output_format: beta }: WireObject): unknown =>
  objectOf(objectOf(config).format ?? beta).schema

function decodeAsk(request: WireObject, model: string, words: number | undefined): SimulatedChat {
  const choice = objectOf(request.tool_choice)
  const offered = listOf(request.tools).flatMap(decodeTool)
  const eligible = choice.type === 'tool' ? offered.filter(({ name }) => name === choice.name) : offered
  const schema = schemaIn(request)
  return {
    model,
    words,
    promptTokens: countPrompt(request),
    lastMessage: lastMessageOf(messagesOf(request)),
    tools: eligible,
    toolMode:
      choice.type === 'none' ? 'none' : choice.type === 'any' || choice.type === 'tool' ? 'required' : 'auto',
    allowsParallelCalls: choice.disable_parallel_tool_use !== true,
    json: schema === undefined ? undefined : { schema },
    maxTokens: decodeCount(request, 'max_tokens') ?? Number.POSITIVE_INFINITY,
  }
}

/** Tools that the vendor runs itself; clients do not call them. */
const HOSTED = /^(web_search|web_fetch|code_execution)_/

function decodeTool(tool: unknown): readonly OfferedTool[] {
  const { name, type, input_schema: parameters } = objectOf(tool)
  if (HOSTED.test(String(type))) return []
  return typeof name === 'string' && name !== '' ? [{ name, parameters, isCustom: false }] : []
}

function lastMessageOf(messages: readonly WireObject[]): SimulatedChat['lastMessage'] {
  const blocks = blocksOf(messages.findLast(({ role }) => role === 'user')?.content)
  const results = blocks.filter(({ type }) => type === 'tool_result')
  const textIn = (list: readonly WireObject[]) => list.map(({ text }) => textOf(text) ?? '').join(' ')
  return results.length > 0
    ? { by: 'tool', text: results.map(({ content }) => textIn(blocksOf(content))).join(' ') }
    : { by: 'user', text: textIn(blocks) }
}

type Completion = {
  readonly id: string
  readonly model: string
  readonly choice: AnswerChoice
  readonly ask: SimulatedChat
  readonly searches: number
  readonly thought: readonly string[]
}

/** Cached tokens are not part of the input here. */
function usageOf({ ask, choice, thought, searches }: Completion) {
  const { cached, cacheWrites, rest } = cacheShares(ask.promptTokens)
  return {
    input_tokens: rest,
    cache_creation_input_tokens: cacheWrites,
    cache_read_input_tokens: cached,
    output_tokens: choice.tokenCount + thought.length,
    service_tier: 'standard',
    ...(searches > 0 && { server_tool_use: { web_search_requests: searches, web_fetch_requests: 0 } }),
  }
}

const stopOf = ({ isCut, calls }: AnswerChoice) =>
  isCut ? 'max_tokens' : calls.length > 0 ? 'tool_use' : 'end_turn'
const callId = ({ id }: Completion, at: number) => `toolu_${id.slice('msg_'.length)}_${at}`

function inputOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Arguments that the token limit has cut, as far as this format can show them.
    return {}
  }
}

/** The query and the result of each search. */
const searchBlocks = (completion: Completion) =>
  Array.from({ length: completion.searches }, (_, at) => {
    const id = `srvtoolu_${completion.id.slice('msg_'.length)}_${at}`
    return [
      { type: 'server_tool_use', id, name: 'web_search', input: { query: completion.ask.lastMessage.text } },
      { type: 'web_search_tool_result', tool_use_id: id, content: [] },
    ]
  }).flat()

function encodeWhole(completion: Completion): string {
  const { id, model, choice, thought } = completion
  const thinking = thought.join('')
  const content = [
    ...searchBlocks(completion),
    ...(thought.length > 0 ? [{ type: 'thinking', thinking, signature: signatureOf(thinking) }] : []),
    ...(choice.text.length > 0 ? [{ type: 'text', text: choice.text.join('') }] : []),
    ...choice.calls.map(({ tool, tokens }, at) => ({
      type: 'tool_use',
      id: callId(completion, at),
      name: tool.name,
      input: inputOf(tokens.join('')),
    })),
  ]
  return JSON.stringify({
    id,
    type: 'message',
    role: 'assistant',
    model,
    content,
    stop_reason: stopOf(choice),
    stop_sequence: null,
    usage: usageOf(completion),
  })
}

const eventOf = (type: string, data: object, tokens = 0): StreamFrame => ({
  data: `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`,
  tokens,
})

function* encodeStream(completion: Completion): Generator<StreamFrame> {
  const { id, model, choice, thought } = completion
  const usage = usageOf(completion)
  const message = {
    id,
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
  }
  yield eventOf('message_start', { message: { ...message, usage: { ...usage, output_tokens: 1 } } })
  yield eventOf('ping', {})
  let index = 0
  const block = function* (content_block: object, deltas: Iterable<readonly [object, number]>) {
    yield eventOf('content_block_start', { index, content_block })
    for (const [delta, tokens] of deltas) yield eventOf('content_block_delta', { index, delta }, tokens)
    yield eventOf('content_block_stop', { index })
    index += 1
  }
  for (const searched of searchBlocks(completion)) yield* block(searched, [])
  if (thought.length > 0) {
    const signature = signatureOf(thought.join(''))
    yield* block({ type: 'thinking', thinking: '', signature: '' }, [
      ...thought.map(thinking => [{ type: 'thinking_delta', thinking }, 1] as const),
      [{ type: 'signature_delta', signature }, 0],
    ])
  }
  if (choice.text.length > 0)
    yield* block(
      { type: 'text', text: '' },
      choice.text.map(text => [{ type: 'text_delta', text }, 1] as const),
    )
  for (const [at, call] of choice.calls.entries())
    yield* block({ type: 'tool_use', id: callId(completion, at), name: call.tool.name, input: {} }, [
      [{ type: 'input_json_delta', partial_json: '' }, countOpening(call)],
      ...call.tokens.map(partial_json => [{ type: 'input_json_delta', partial_json }, 1] as const),
    ])
  yield eventOf('message_delta', { delta: { stop_reason: stopOf(choice), stop_sequence: null }, usage })
  yield eventOf('message_stop', {})
}

const TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

const encodeError = (status: number, message: string): string => {
  const type = TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error')
  return JSON.stringify({ type: 'error', error: { type, message }, request_id: 'req_simulated' })
}

function encodeFailure({ status, message, isOutOfQuota = false }: Failure): string {
  return encodeError(isOutOfQuota ? 402 : status, message)
}
