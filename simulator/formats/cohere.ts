import { type Ask, answer, type Choice, countOpening } from '../answer.ts'
import { isObject, type JsonObject } from '../json.ts'
import { steer } from '../steering.ts'
import type { Frame, Inquiry, Reply } from './format.ts'
import { decodeAsk } from './openai-chat.ts'
import { decodeRequest } from './openai-request.ts'
import { EVENT_STREAM } from './openai-stream.ts'
import { behind, vendor } from './vendor.ts'

/** Instructions of the vendor's own are counted as tokens and billed to nobody. */
const OWN_INSTRUCTIONS = 495

function askOf(request: JsonObject, model: string, headers: Inquiry['headers']): Ask {
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
  const usage = usageOf(promptTokens, choice.tokenCount)
  if (request.stream === true) {
    return { kind: 'stream', contentType: EVENT_STREAM, frames: stream(id, choice, usage), bill }
  }
  const message =
    choice.calls.length > 0
      ? { role: 'assistant', tool_plan: PLAN, tool_calls: choice.calls.map((_, at) => callOf(choice, at)) }
      : { role: 'assistant', content: [{ type: 'text', text: choice.text.join('') }] }
  const whole = JSON.stringify({ id, message, finish_reason: finishOf(choice), usage })
  return { kind: 'whole', body: whole, tokens: choice.tokenCount, bill }
}

const PLAN = 'I will use the tools.'

const usageOf = (input: number, output: number) => ({
  billed_units: { input_tokens: input, output_tokens: output },
  tokens: { input_tokens: input + OWN_INSTRUCTIONS, output_tokens: output + 3 },
  cached_tokens: OWN_INSTRUCTIONS,
})

function finishOf({ isCut, calls }: Choice): string {
  if (isCut) return 'MAX_TOKENS'
  return calls.length > 0 ? 'TOOL_CALL' : 'COMPLETE'
}

function callOf({ calls }: Choice, at: number, json = calls[at]?.tokens.join('')) {
  const name = calls[at]?.tool.name ?? ''
  return { id: `${name}_${at}`, type: 'function', function: { name, arguments: json } }
}

function* stream(id: string, choice: Choice, usage: JsonObject): Generator<Frame> {
  const empty = { role: 'assistant', content: [], tool_plan: '', tool_calls: [], citations: [] }
  yield event('message-start', { id, delta: { message: empty } })
  if (choice.calls.length === 0) {
    yield event('content-start', { index: 0, ...told('content', { type: 'text', text: '' }) })
    for (const text of choice.text)
      yield event('content-delta', { index: 0, ...told('content', { text }) }, 1)
    yield event('content-end', { index: 0 })
  } else yield event('tool-plan-delta', told('tool_plan', PLAN))
  for (const [index, call] of choice.calls.entries()) {
    const begun = told('tool_calls', callOf(choice, index, ''))
    yield event('tool-call-start', { index, ...begun }, countOpening(call))
    for (const json of call.tokens) {
      yield event('tool-call-delta', { index, ...told('tool_calls', { function: { arguments: json } }) }, 1)
    }
    yield event('tool-call-end', { index })
  }
  yield event('message-end', { delta: { finish_reason: finishOf(choice), usage } })
  yield { data: 'data: [DONE]\n\n', tokens: 0 }
}

const told = (name: string, value: unknown) => ({ delta: { message: { [name]: value } } })

const event = (type: string, rest: JsonObject, tokens = 0): Frame => ({
  data: `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`,
  tokens,
})

/** Cohere's chat, version 2; refusals are `{message}`. */
export const cohere = vendor('Cohere', behind('Bearer'), [
  { method: 'POST', path: /^\/cohere\/v2\/chat$/, answer: chat },
])
