import { type AnswerChoice, answer, countOpening, type OfferedTool, type SimulatedChat } from '../answer.ts'
import { isObject, textOf, type WireObject } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { steer } from '../steering.ts'
import { countTokens, splitTokens } from '../tokens.ts'
import type { Inquiry, Reply, StreamFrame } from './format.ts'
import { TOKENS_PER_MEDIA_PART } from './openai-chat.ts'
import { decodeCount, decodeRequest, missing } from './openai-request.ts'
import { EVENT_STREAM } from './openai-stream.ts'
import { searchesFor, searchUnits } from './searches.ts'
import { cacheShares, signatureOf, thoughtFor } from './thought.ts'

const objectOf = (value: unknown): WireObject => (isObject(value) ? value : {})
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** A string is a message of the user; an item without a type is a message. */
function itemsOf({ input }: WireObject): readonly WireObject[] {
  if (input === undefined || input === null) throw missing('input')
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }]
  if (!Array.isArray(input) || !input.every(isObject))
    throw new ProviderError('wrong_type', "'input' must be a text or a list of objects.", 'input')
  return input.map(item => ({ type: 'message', ...item }))
}

/** Rules that other vendors do not have. */
function check(items: readonly WireObject[], isThinking: boolean): void {
  const [firstCall] = items.filter(({ type }) => type === 'function_call')
  const isProven = items
    .slice(0, firstCall && items.indexOf(firstCall))
    .some(({ type, encrypted_content: proof }) => type === 'reasoning' && proof !== undefined)
  if (isThinking && firstCall && !isProven)
    throw new ProviderError(
      'bad_value',
      "Item of type 'function_call' was provided without its required 'reasoning' item.",
      'input',
    )
  const calls = new Set<unknown>()
  for (const item of items) {
    if (item.type === 'function_call' || item.type === 'custom_tool_call') calls.add(item.call_id)
    if (String(item.type).endsWith('_call_output') && !calls.has(item.call_id))
      throw new ProviderError(
        'bad_value',
        `No tool call found for function call output with call_id ${item.call_id}.`,
        'input',
      )
    const { encrypted_content: proof } = item
    const isForeign = typeof proof === 'string' && !proof.startsWith('sim-signature-')
    if (item.type === 'reasoning' && isForeign)
      throw new ProviderError('bad_value', 'The encrypted content could not be verified.', 'input')
  }
}

export function answerResponses({ id, time, headers, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const searches = searchesFor(request, headers, model)
  const plainAsk = decodeAsk(request, model, steer('words', headers, model))
  const ask = { ...plainAsk, promptTokens: plainAsk.promptTokens + searches.tokens }
  const choice = answer(ask, 0)
  const { effort } = objectOf(request.reasoning)
  const isThinking = effort !== undefined && effort !== 'none'
  check(itemsOf(request), isThinking)
  const completion: Completion = {
    id: `resp_${id}`,
    model,
    ask,
    choice,
    createdS: Math.floor(time.getTime() / 1000),
    thought: isThinking ? splitTokens(thoughtFor(ask)) : [],
    searches: searches.count,
    includesSignature: listOf(request.include).includes('reasoning.encrypted_content'),
    request,
  }
  const tokens = choice.tokenCount + completion.thought.length
  const bill = { id: completion.id, model, promptTokens: ask.promptTokens, ...searchUnits(searches) }
  if (request.stream !== true)
    return { kind: 'whole', body: JSON.stringify(whole(completion, itemsOfAnswer(completion))), tokens, bill }
  return { kind: 'stream', contentType: EVENT_STREAM, frames: encodeStream(completion), bill }
}

const partsOf = (content: unknown): readonly WireObject[] =>
  typeof content === 'string' ? [{ type: 'input_text', text: content }] : listOf(content).map(objectOf)

const textIn = (content: unknown) =>
  partsOf(content)
    .map(({ text }) => textOf(text) ?? '')
    .join(' ')

function countPrompt(request: WireObject): number {
  const countPart = ({ text, refusal }: WireObject): number => {
    const words = textOf(text) ?? textOf(refusal)
    return words === undefined ? TOKENS_PER_MEDIA_PART : countTokens(words)
  }
  let count = countTokens(textOf(request.instructions) ?? '')
  for (const item of itemsOf(request)) {
    for (const part of [...partsOf(item.content), ...partsOf(item.output)]) count += countPart(part)
    count += countTokens(textOf(item.name) ?? '')
    count += countTokens(textOf(item.arguments) ?? textOf(item.input) ?? '')
  }
  if (listOf(request.tools).length > 0) count += countTokens(JSON.stringify(request.tools))
  const { schema } = objectOf(objectOf(request.text).format)
  return schema === undefined ? count : count + countTokens(JSON.stringify(schema))
}

function decodeAsk(request: WireObject, model: string, words: number | undefined): SimulatedChat {
  const items = itemsOf(request)
  const last = items.at(-1)
  const isResult = String(last?.type).endsWith('_call_output')
  const message = items.findLast(({ type, role }) => type === 'message' && role === 'user')
  const choice = request.tool_choice
  const forcedName = objectOf(choice).name
  const offered = listOf(request.tools).flatMap(decodeTool)
  const format = objectOf(objectOf(request.text).format)
  return {
    model,
    words,
    promptTokens: countPrompt(request),
    lastMessage: isResult
      ? { by: 'tool', text: textIn(last?.output) }
      : { by: 'user', text: textIn(message?.content) },
    tools: forcedName === undefined ? offered : offered.filter(({ name }) => name === forcedName),
    toolMode:
      choice === 'none' ? 'none' : choice === 'required' || forcedName !== undefined ? 'required' : 'auto',
    allowsParallelCalls: request.parallel_tool_calls !== false,
    json:
      format.type === 'json_schema' || format.type === 'json_object' ? { schema: format.schema } : undefined,
    maxTokens: decodeCount(request, 'max_output_tokens') ?? Number.POSITIVE_INFINITY,
  }
}

function decodeTool(tool: unknown): readonly OfferedTool[] {
  const { type, name, parameters } = objectOf(tool)
  if (typeof name !== 'string' || (type !== 'function' && type !== 'custom')) return []
  return [{ name, parameters, isCustom: type === 'custom' }]
}

type Completion = {
  readonly id: string
  readonly model: string
  readonly ask: SimulatedChat
  readonly choice: AnswerChoice
  readonly createdS: number
  readonly thought: readonly string[]
  readonly searches: number
  readonly includesSignature: boolean
  readonly request: WireObject
}

/** Cached tokens are part of the input here, reasoning is part of the output. */
function usageOf({ ask, choice, thought }: Completion) {
  const output = choice.tokenCount + thought.length
  return {
    input_tokens: ask.promptTokens,
    input_tokens_details: { cached_tokens: cacheShares(ask.promptTokens).cached },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: thought.length },
    total_tokens: ask.promptTokens + output,
  }
}

const nameFor = ({ id }: Completion, kind: string, at = 0) => `${kind}_${id.slice('resp_'.length)}_${at}`

const reasoningItem = (completion: Completion) => {
  const text = completion.thought.join('')
  const proof = completion.includesSignature ? { encrypted_content: signatureOf(text) } : {}
  return {
    id: nameFor(completion, 'rs'),
    type: 'reasoning',
    summary: [{ type: 'summary_text', text }],
    ...proof,
  }
}

const textPart = (text: string) => ({ type: 'output_text', text, annotations: [], logprobs: [] })

const messageItem = (completion: Completion) => ({
  id: nameFor(completion, 'msg'),
  type: 'message',
  status: 'completed',
  role: 'assistant',
  content: [textPart(completion.choice.text.join(''))],
})

function callItem(completion: Completion, at: number, input: string) {
  const call = completion.choice.calls[at]
  const isCustom = call?.tool.isCustom === true
  return {
    id: nameFor(completion, 'fc', at),
    type: isCustom ? 'custom_tool_call' : 'function_call',
    status: 'completed',
    call_id: nameFor(completion, 'call', at),
    name: call?.tool.name,
    ...(isCustom ? { input } : { arguments: input }),
  }
}

const searchItems = (completion: Completion) =>
  Array.from({ length: completion.searches }, (_, at) => ({
    id: nameFor(completion, 'ws', at),
    type: 'web_search_call',
    status: 'completed',
    action: { type: 'search', query: completion.ask.lastMessage.text },
  }))

const itemsOfAnswer = (completion: Completion): readonly object[] => [
  ...searchItems(completion),
  ...(completion.thought.length > 0 ? [reasoningItem(completion)] : []),
  ...(completion.choice.text.length > 0 ? [messageItem(completion)] : []),
  ...completion.choice.calls.map(({ tokens }, at) => callItem(completion, at, tokens.join(''))),
]

const whole = (completion: Completion, output: readonly object[], status?: string) => ({
  id: completion.id,
  object: 'response',
  created_at: completion.createdS,
  status: status ?? (completion.choice.isCut ? 'incomplete' : 'completed'),
  error: null,
  incomplete_details: completion.choice.isCut && !status ? { reason: 'max_output_tokens' } : null,
  instructions: completion.request.instructions ?? null,
  model: completion.model,
  output,
  parallel_tool_calls: completion.ask.allowsParallelCalls,
  tool_choice: completion.request.tool_choice ?? 'auto',
  tools: listOf(completion.request.tools),
  text: completion.request.text ?? { format: { type: 'text' } },
  usage: status ? null : usageOf(completion),
})

function* encodeStream(completion: Completion): Generator<StreamFrame> {
  const { choice, thought } = completion
  let sequence = 0
  const event = (type: string, data: object, tokens = 0): StreamFrame => ({
    data: `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence++, ...data })}\n\n`,
    tokens,
  })
  yield event('response.created', { response: whole(completion, [], 'in_progress') })
  yield event('response.in_progress', { response: whole(completion, [], 'in_progress') })
  let output_index = 0

  for (const item of searchItems(completion)) {
    yield event('response.output_item.added', { output_index, item: { ...item, status: 'in_progress' } })
    yield event('response.output_item.done', { output_index, item })
    output_index += 1
  }
  if (thought.length > 0) {
    const item = reasoningItem(completion)
    const at = { item_id: item.id, output_index, summary_index: 0 }
    yield event('response.output_item.added', { output_index, item: { ...item, summary: [] } })
    yield event('response.reasoning_summary_part.added', { ...at, part: { type: 'summary_text', text: '' } })
    for (const delta of thought) yield event('response.reasoning_summary_text.delta', { ...at, delta }, 1)
    yield event('response.reasoning_summary_text.done', { ...at, text: thought.join('') })
    yield event('response.reasoning_summary_part.done', { ...at, part: item.summary[0] })
    yield event('response.output_item.done', { output_index, item })
    output_index += 1
  }
  if (choice.text.length > 0) {
    const item = messageItem(completion)
    const at = { item_id: item.id, output_index, content_index: 0 }
    yield event('response.output_item.added', {
      output_index,
      item: { ...item, status: 'in_progress', content: [] },
    })
    yield event('response.content_part.added', { ...at, part: textPart('') })
    for (const delta of choice.text)
      yield event('response.output_text.delta', { ...at, delta, logprobs: [] }, 1)
    yield event('response.output_text.done', { ...at, text: choice.text.join(''), logprobs: [] })
    yield event('response.content_part.done', { ...at, part: item.content[0] })
    yield event('response.output_item.done', { output_index, item })
    output_index += 1
  }
  for (const [index, call] of choice.calls.entries()) {
    const item = callItem(completion, index, call.tokens.join(''))
    const at = { item_id: item.id, output_index }
    const kind = call.tool.isCustom ? 'custom_tool_call_input' : 'function_call_arguments'
    const empty = { ...callItem(completion, index, ''), status: 'in_progress' }
    yield event('response.output_item.added', { output_index, item: empty }, countOpening(call))
    for (const delta of call.tokens) yield event(`response.${kind}.delta`, { ...at, delta }, 1)
    const payload = call.tool.isCustom ? { input: call.tokens.join('') } : { arguments: call.tokens.join('') }
    yield event(`response.${kind}.done`, { ...at, ...payload })
    yield event('response.output_item.done', { output_index, item })
    output_index += 1
  }
  const last = choice.isCut ? 'response.incomplete' : 'response.completed'
  yield event(last, { response: whole(completion, itemsOfAnswer(completion)) })
}
