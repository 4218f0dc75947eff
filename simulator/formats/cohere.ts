import { type AnswerChoice, answer, countOpening, type SimulatedChat } from '../answer.ts'
import { isObject, type WireObject } from '../json.ts'
import { steer } from '../steering.ts'
import { splitTokens } from '../tokens.ts'
import type { Inquiry, Reply, StreamFrame } from './format.ts'
import { decodeAsk } from './openai-chat.ts'
import { decodeRequest } from './openai-request.ts'
import { EVENT_STREAM } from './openai-stream.ts'
import { thoughtFor } from './thought.ts'
import { schemeKey, vendor } from './vendor.ts'

/** The vendor's own instructions are counted as tokens and not billed. */
const OWN_INSTRUCTIONS = 495

function askOf(request: WireObject, model: string, headers: Inquiry['headers']): SimulatedChat {
  const { tool_choice: choice, response_format: format } = request
  const schema = isObject(format) ? format.json_schema : undefined
  return decodeAsk(
    {
      ...request,
      ...(typeof choice === 'string' && { tool_choice: choice.toLowerCase() }),
      ...(schema !== undefined && { response_format: { type: 'json_schema', json_schema: { schema } } }),
    },
    model,
    steer('words', headers, model),
  )
}

function chat({ id, headers, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const ask = askOf(request, model, headers)
  const choice = answer(ask, 0)
  const { promptTokens } = ask
  const bill = { id, model, promptTokens }
  const isThinking = isObject(request.thinking) && request.thinking.type === 'enabled'
  const thought = isThinking ? splitTokens(thoughtFor(ask)) : []
  const tokens = choice.tokenCount + thought.length
  const completion: Completion = { id, choice, thought, usage: usageOf(promptTokens, tokens) }
  if (request.stream === true)
    return { kind: 'stream', contentType: EVENT_STREAM, frames: stream(completion), bill }
  return { kind: 'whole', body: whole(completion), tokens, bill }
}

type Completion = {
  readonly id: string
  readonly choice: AnswerChoice
  readonly thought: readonly string[]
  readonly usage: WireObject
}

/** A model that thinks has no plan. */
function whole({ id, choice, thought, usage }: Completion): string {
  const content = [
    ...(thought.length > 0 ? [{ type: 'thinking', thinking: thought.join('') }] : []),
    ...(choice.calls.length === 0 ? [{ type: 'text', text: choice.text.join('') }] : []),
  ]
  const message = {
    role: 'assistant',
    ...(content.length > 0 && { content }),
    ...(choice.calls.length > 0 && {
      ...(thought.length === 0 && { tool_plan: PLAN }),
      tool_calls: choice.calls.map((_, at) => callOf(choice, at)),
    }),
  }
  return JSON.stringify({ id, message, finish_reason: finishOf(choice), usage })
}

const PLAN = 'I will use the tools.'

const usageOf = (input: number, output: number) => ({
  billed_units: { input_tokens: input, output_tokens: output },
  tokens: { input_tokens: input + OWN_INSTRUCTIONS, output_tokens: output + 3 },
  cached_tokens: OWN_INSTRUCTIONS,
})

function finishOf({ isCut, calls }: AnswerChoice): string {
  if (isCut) return 'MAX_TOKENS'
  return calls.length > 0 ? 'TOOL_CALL' : 'COMPLETE'
}

function callOf({ calls }: AnswerChoice, at: number, json = calls[at]?.tokens.join('')) {
  const name = calls[at]?.tool.name ?? ''
  return { id: `${name}_${at}`, type: 'function', function: { name, arguments: json } }
}

function* stream({ id, choice, thought, usage }: Completion): Generator<StreamFrame> {
  const empty = { role: 'assistant', content: [], tool_plan: '', tool_calls: [], citations: [] }
  yield event('message-start', { id, delta: { message: empty } })
  if (thought.length > 0) yield* block(0, 'thinking', thought)
  if (choice.calls.length === 0) yield* block(thought.length > 0 ? 1 : 0, 'text', choice.text)
  else if (thought.length === 0) yield event('tool-plan-delta', messageDelta('tool_plan', PLAN))
  for (const [index, call] of choice.calls.entries()) {
    const opening = messageDelta('tool_calls', callOf(choice, index, ''))
    yield event('tool-call-start', { index, ...opening }, countOpening(call))
    for (const json of call.tokens) {
      yield event(
        'tool-call-delta',
        { index, ...messageDelta('tool_calls', { function: { arguments: json } }) },
        1,
      )
    }
    yield event('tool-call-end', { index })
  }
  yield event('message-end', { delta: { finish_reason: finishOf(choice), usage } })
  yield { data: 'data: [DONE]\n\n', tokens: 0 }
}

function* block(index: number, type: string, pieces: readonly string[]): Generator<StreamFrame> {
  yield event('content-start', { index, ...messageDelta('content', { type, [type]: '' }) })
  for (const piece of pieces)
    yield event('content-delta', { index, ...messageDelta('content', { [type]: piece }) }, 1)
  yield event('content-end', { index })
}

const messageDelta = (name: string, value: unknown) => ({ delta: { message: { [name]: value } } })

const event = (type: string, rest: WireObject, tokens = 0): StreamFrame => ({
  data: `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`,
  tokens,
})

/** Cohere's chat, version 2; refusals are `{message}`. */
export const cohere = vendor('Cohere', schemeKey('Bearer'), [
  { method: 'POST', path: /^\/cohere\/v2\/chat$/, answer: chat },
])
