import { EventStreamCodec } from '@smithy/eventstream-codec'
import { type Ask, answer, type Choice, countOpening } from '../answer.ts'
import { isObject, type JsonObject } from '../json.ts'
import { MODELS } from '../models.ts'
import { Refusal } from '../refusal.ts'
import { steer } from '../steering.ts'
import type { Format, Frame, Inquiry, Reply } from './format.ts'
import { decodeAsk } from './openai-chat.ts'
import { decodeRequest } from './openai-request.ts'

const objectOf = (value: unknown): JsonObject => (isObject(value) ? value : {})
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** The same request in the words of the common format. */
function askOf(request: JsonObject, model: string, headers: Inquiry['headers']): Ask {
  const { toolConfig, inferenceConfig, outputConfig, system } = request
  const { tools, toolChoice } = objectOf(toolConfig)
  const offered = listOf(tools).flatMap(tool => {
    const spec = objectOf(objectOf(tool).toolSpec)
    const parameters = objectOf(spec.inputSchema).json
    return spec.name === undefined ? [] : [{ type: 'function', function: { name: spec.name, parameters } }]
  })
  const { maxTokens } = objectOf(inferenceConfig)
  const { jsonSchema } = objectOf(objectOf(objectOf(outputConfig).textFormat).structure)
  const schema = objectOf(jsonSchema).schema
  return decodeAsk(
    {
      messages: [...listOf(system).map(block => ({ role: 'system', content: [block] })), ...turnsOf(request)],
      tools: offered,
      ...choiceOf(objectOf(toolChoice)),
      ...(maxTokens !== undefined && { max_tokens: maxTokens }),
      ...(typeof schema === 'string' && {
        response_format: { type: 'json_schema', json_schema: { schema: JSON.parse(schema) } },
      }),
    },
    model,
    steer('words', headers, model),
  )
}

function choiceOf({ any, tool }: JsonObject) {
  if (any !== undefined) return { tool_choice: 'required' }
  return tool === undefined
    ? {}
    : { tool_choice: { type: 'function', function: { name: objectOf(tool).name } } }
}

/** A turn with results is the tool's; what this vendor refuses and others do not is refused. */
function turnsOf({ messages, toolConfig }: JsonObject): readonly JsonObject[] {
  const turns = listOf(messages).map(objectOf)
  if (turns[0]?.role !== 'user')
    throw new Refusal('bad_value', 'A conversation must start with a user message.', 'messages')
  return turns.map(({ role, content }) => {
    const blocks = listOf(content).map(objectOf)
    const results = blocks.flatMap(({ toolResult }) =>
      toolResult === undefined ? [] : [objectOf(toolResult)],
    )
    const calls = blocks.flatMap(({ toolUse }) => (toolUse === undefined ? [] : [objectOf(toolUse)]))
    if (blocks.some(({ text }) => typeof text === 'string' && text.trim() === ''))
      throw new Refusal('bad_value', 'The text field in the ContentBlock object is blank.', 'messages')
    if (results.length + calls.length > 0 && toolConfig === undefined)
      throw new Refusal('missing_field', 'The toolConfig field must be defined.', 'toolConfig')
    const said = blocks.filter(block => !('toolResult' in block || 'toolUse' in block))
    return {
      role: results.length > 0 ? 'tool' : role,
      content: [...results.flatMap(result => listOf(result.content)), ...said],
      tool_calls: calls.map(({ name, input }) => ({ function: { name, arguments: JSON.stringify(input) } })),
    }
  })
}

function modelOf({ params: [id = ''] }: Inquiry): string {
  try {
    return decodeURIComponent(id)
  } catch {
    throw new Refusal('unknown_model', 'The provided model identifier is invalid.')
  }
}

/** The address names the model; what reads requests looks for it in the body. */
function withModel(body: string, model: string): string {
  try {
    const request: unknown = JSON.parse(body)
    return isObject(request) ? JSON.stringify({ ...request, model }) : body
  } catch {
    // Not JSON: whoever reads it next refuses it.
    return body
  }
}

function converse(inquiry: Inquiry): Reply {
  const { model, choice, bill, usage } = answered(inquiry)
  const content =
    choice.calls.length > 0
      ? choice.calls.map(({ tool, tokens }, at) => ({
          toolUse: { toolUseId: `tooluse_${at}`, name: tool.name, input: objectIn(tokens.join('')) },
        }))
      : [{ text: choice.text.join('') }]
  const body = JSON.stringify({
    output: { message: { role: 'assistant', content } },
    stopReason: stopOf(choice),
    usage,
    metrics: { latencyMs: model.length },
  })
  return { kind: 'whole', body, tokens: choice.tokenCount, bill }
}

function objectIn(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    // Cut by the limit: the vendor gives what it has understood.
    return {}
  }
}

function converseStream(inquiry: Inquiry): Reply {
  const { choice, bill, usage } = answered(inquiry)
  const contentType = 'application/vnd.amazon.eventstream'
  return { kind: 'stream', contentType, frames: stream(choice, usage), bill }
}

function answered(inquiry: Inquiry) {
  const model = modelOf(inquiry)
  const { request } = decodeRequest(withModel(inquiry.body, model))
  const ask = askOf(request, model, inquiry.headers)
  const choice = answer(ask, 0)
  const bill = { id: inquiry.id, model, promptTokens: ask.promptTokens }
  const usage = {
    inputTokens: ask.promptTokens,
    outputTokens: choice.tokenCount,
    totalTokens: ask.promptTokens + choice.tokenCount,
    cacheReadInputTokens: 0,
    cacheWriteInputTokens: 0,
  }
  return { model, choice, bill, usage }
}

function stopOf({ isCut, calls }: Choice): string {
  if (isCut) return 'max_tokens'
  return calls.length > 0 ? 'tool_use' : 'end_turn'
}

/** Only calls have a beginning of their own; the usage comes after the end. */
function* stream(choice: Choice, usage: JsonObject): Generator<Frame> {
  yield frame('messageStart', { role: 'assistant' })
  for (const text of choice.text)
    yield frame('contentBlockDelta', { contentBlockIndex: 0, delta: { text } }, 1)
  if (choice.calls.length === 0) yield frame('contentBlockStop', { contentBlockIndex: 0 })
  for (const [at, call] of choice.calls.entries()) {
    const toolUse = { toolUseId: `tooluse_${at}`, name: call.tool.name }
    yield frame('contentBlockStart', { contentBlockIndex: at, start: { toolUse } }, countOpening(call))
    for (const input of call.tokens)
      yield frame('contentBlockDelta', { contentBlockIndex: at, delta: { toolUse: { input } } }, 1)
    yield frame('contentBlockStop', { contentBlockIndex: at })
  }
  yield frame('messageStop', { stopReason: stopOf(choice) })
  yield frame('metadata', { usage, metrics: { latencyMs: 1 } })
}

const codec = new EventStreamCodec(
  bytes => Buffer.from(bytes as Uint8Array).toString(),
  text => Buffer.from(text),
)
const header = (value: string) => ({ type: 'string', value }) as const

/** Filled up with a text of no meaning, as the vendor does. */
function frame(name: string, payload: JsonObject, tokens = 0): Frame {
  const headers = {
    ':event-type': header(name),
    ':content-type': header('application/json'),
    ':message-type': header('event'),
  }
  const body = Buffer.from(JSON.stringify({ ...payload, p: 'abcdefgh' }))
  return { data: codec.encode({ headers, body }), tokens }
}

function listModels(): Reply {
  const modelSummaries = MODELS.map(({ id, owner }) => ({ modelId: id, providerName: owner }))
  return { kind: 'free', body: JSON.stringify({ modelSummaries }) }
}

/** Bedrock's Converse, with a signature or an API key; the signature is looked at, not worked out. */
export const bedrock = {
  name: 'Bedrock',
  keyOf: ({ authorization = '', 'x-amz-date': date }) =>
    /^bearer +(\S+)$/i.exec(authorization)?.[1] ??
    (date === undefined
      ? undefined
      : /^AWS4-HMAC-SHA256 Credential=([^/]+)\/\d{8}\/[\w-]+\/bedrock\/aws4_request, SignedHeaders=\S*host\S*, Signature=[0-9a-f]{64}$/.exec(
          authorization,
        )?.[1]),
  routes: [
    { method: 'POST', path: /^\/bedrock\/model\/([^/]+)\/converse$/, answer: converse },
    { method: 'POST', path: /^\/bedrock\/model\/([^/]+)\/converse-stream$/, answer: converseStream },
    { method: 'GET', path: /^\/bedrock\/foundation-models$/, answer: listModels },
  ],
  encodeRefusal: ({ message }) => JSON.stringify({ message }),
  encodeFailure: ({ message }) => JSON.stringify({ message }),
} satisfies Format
