import { EventStreamCodec } from '@smithy/eventstream-codec'
import { type AnswerChoice, answer, countOpening, type SimulatedChat } from '../answer.ts'
import { isObject, type WireObject } from '../json.ts'
import { MODELS } from '../models.ts'
import { ProviderError } from '../provider-error.ts'
import { steer } from '../steering.ts'
import { splitTokens } from '../tokens.ts'
import type { Inquiry, Protocol, Reply, StreamFrame } from './format.ts'
import { decodeAsk } from './openai-chat.ts'
import { decodeRequest } from './openai-request.ts'
import { cacheShares, signatureOf, thoughtFor } from './thought.ts'

const objectOf = (value: unknown): WireObject => (isObject(value) ? value : {})
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** The same request in the common format. */
function askOf(request: WireObject, model: string, headers: Inquiry['headers']): SimulatedChat {
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

function choiceOf({ any, tool }: WireObject) {
  if (any !== undefined) return { tool_choice: 'required' }
  return tool === undefined
    ? {}
    : { tool_choice: { type: 'function', function: { name: objectOf(tool).name } } }
}

/** A turn with results belongs to the tool. Also checks the rules that only this vendor has. */
function turnsOf(request: WireObject): readonly WireObject[] {
  const { messages, toolConfig } = request
  const turns = listOf(messages).map(objectOf)
  checkThought(turns.at(-2), isThinking(request))
  if (turns[0]?.role !== 'user')
    throw new ProviderError('bad_value', 'A conversation must start with a user message.', 'messages')
  return turns.map(({ role, content }) => {
    const blocks = listOf(content).map(objectOf)
    const results = blocks.flatMap(({ toolResult }) =>
      toolResult === undefined ? [] : [objectOf(toolResult)],
    )
    const calls = blocks.flatMap(({ toolUse }) => (toolUse === undefined ? [] : [objectOf(toolUse)]))
    if (blocks.some(({ text }) => typeof text === 'string' && text.trim() === ''))
      throw new ProviderError('bad_value', 'The text field in the ContentBlock object is blank.', 'messages')
    if (results.length + calls.length > 0 && toolConfig === undefined)
      throw new ProviderError('missing_field', 'The toolConfig field must be defined.', 'toolConfig')
    const messageBlocks = blocks.filter(block => !UNCOMMON_BLOCKS.some(name => name in block))
    return {
      role: results.length > 0 ? 'tool' : role,
      content: [...results.flatMap(result => listOf(result.content)), ...messageBlocks],
      tool_calls: calls.map(({ name, input }) => ({ function: { name, arguments: JSON.stringify(input) } })),
    }
  })
}

/** Blocks that the common format represents differently or not at all. */
const UNCOMMON_BLOCKS = ['toolResult', 'toolUse', 'reasoningContent', 'cachePoint']

const isThinking = ({ additionalModelRequestFields }: WireObject): boolean =>
  ['enabled', 'adaptive'].includes(String(objectOf(objectOf(additionalModelRequestFields).thinking).type))

/** Calls must come back with their signed reasoning. */
function checkThought(calling: WireObject | undefined, isNeeded: boolean): void {
  const blocks = listOf(calling?.content).map(objectOf)
  const proofs = blocks.flatMap(({ reasoningContent }) =>
    reasoningContent === undefined ? [] : [objectOf(objectOf(reasoningContent).reasoningText)],
  )
  if (proofs.some(({ text, signature }) => signature !== signatureOf(String(text))))
    throw new ProviderError('bad_value', 'Invalid signature in thinking block', 'messages')
  if (isNeeded && blocks.some(block => 'toolUse' in block) && proofs.length === 0)
    throw new ProviderError('bad_value', 'Expected thinking, but found tool_use', 'messages')
}

function modelOf({ params: [id = ''] }: Inquiry): string {
  try {
    return decodeURIComponent(id)
  } catch {
    throw new ProviderError('unknown_model', 'The provided model identifier is invalid.')
  }
}

/** The path has the model; the readers of requests expect it in the body. */
function withModel(body: string, model: string): string {
  try {
    const request: unknown = JSON.parse(body)
    return isObject(request) ? JSON.stringify({ ...request, model }) : body
  } catch {
    // Not JSON: the next reader rejects it.
    return body
  }
}

function converse(inquiry: Inquiry): Reply {
  const { model, choice, bill, usage, thought } = answered(inquiry)
  const text = thought.join('')
  const reasoningContent = { reasoningText: { text, signature: signatureOf(text) } }
  const completion =
    choice.calls.length > 0
      ? choice.calls.map(({ tool, tokens }, at) => ({
          toolUse: { toolUseId: `tooluse_${at}`, name: tool.name, input: objectIn(tokens.join('')) },
        }))
      : [{ text: choice.text.join('') }]
  const content = thought.length > 0 ? [{ reasoningContent }, ...completion] : completion
  const body = JSON.stringify({
    output: { message: { role: 'assistant', content } },
    stopReason: stopOf(choice),
    usage,
    metrics: { latencyMs: model.length },
  })
  return { kind: 'whole', body, tokens: choice.tokenCount + thought.length, bill }
}

function objectIn(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    // Cut by the token limit: the vendor returns what it could parse.
    return {}
  }
}

function converseStream(inquiry: Inquiry): Reply {
  const completion = answered(inquiry)
  const contentType = 'application/vnd.amazon.eventstream'
  return { kind: 'stream', contentType, frames: stream(completion), bill: completion.bill }
}

function answered(inquiry: Inquiry) {
  const model = modelOf(inquiry)
  const { request } = decodeRequest(withModel(inquiry.body, model))
  const ask = askOf(request, model, inquiry.headers)
  const choice = answer(ask, 0)
  const bill = { id: inquiry.id, model, promptTokens: ask.promptTokens }
  const thought = isThinking(request) ? splitTokens(thoughtFor(ask)) : []
  const { cached, cacheWrites, rest } = cacheShares(ask.promptTokens)
  const outputTokens = choice.tokenCount + thought.length
  const usage = {
    inputTokens: rest,
    outputTokens,
    totalTokens: ask.promptTokens + outputTokens,
    cacheReadInputTokens: cached,
    cacheWriteInputTokens: cacheWrites,
  }
  return { model, choice, bill, usage, thought }
}

function stopOf({ isCut, calls }: AnswerChoice): string {
  if (isCut) return 'max_tokens'
  return calls.length > 0 ? 'tool_use' : 'end_turn'
}

/** Only calls have a start event; the usage comes after the end. */
function* stream({ choice, usage, thought }: ReturnType<typeof answered>): Generator<StreamFrame> {
  yield frame('messageStart', { role: 'assistant' })
  const grown = (contentBlockIndex: number, delta: WireObject, tokens = 1) =>
    frame('contentBlockDelta', { contentBlockIndex, delta }, tokens)
  for (const text of thought) yield grown(0, { reasoningContent: { text } })
  if (thought.length > 0) {
    yield grown(0, { reasoningContent: { signature: signatureOf(thought.join('')) } }, 0)
    yield frame('contentBlockStop', { contentBlockIndex: 0 })
  }
  const first = thought.length > 0 ? 1 : 0
  for (const text of choice.text) yield grown(first, { text })
  if (choice.calls.length === 0) yield frame('contentBlockStop', { contentBlockIndex: first })
  for (const [index, call] of choice.calls.entries()) {
    const at = first + index
    const toolUse = { toolUseId: `tooluse_${at}`, name: call.tool.name }
    yield frame('contentBlockStart', { contentBlockIndex: at, start: { toolUse } }, countOpening(call))
    for (const input of call.tokens) yield grown(at, { toolUse: { input } })
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

/** Encodes an event with padding, as the vendor does. */
function frame(name: string, payload: WireObject, tokens = 0): StreamFrame {
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

/** Bedrock's Converse, with a signature or an API key; the signature must be present and is not verified. */
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
  failureHeaders: status => ({
    'x-amzn-errortype': `${CLASSES[status] ?? 'ValidationException'}:http://internal.amazon.com/coral/`,
  }),
  errorEvent: body => {
    const headers = {
      ':message-type': header('exception'),
      ':exception-type': header('modelStreamErrorException'),
    }
    return codec.encode({ headers, body: Buffer.from(body) })
  },
  framing: {
    read: data => JSON.parse(Buffer.from(codec.decode(Buffer.from(data)).body).toString()) as WireObject,
    write: (json, before) => {
      const { headers } = codec.decode(Buffer.from(before))
      return codec.encode({ headers, body: Buffer.from(JSON.stringify(json)) })
    },
  },
} satisfies Protocol

/** The class of an error is in a header only. */
const CLASSES: Readonly<Record<number, string>> = {
  401: 'UnrecognizedClientException',
  403: 'AccessDeniedException',
  404: 'ResourceNotFoundException',
  408: 'ModelTimeoutException',
  424: 'ModelErrorException',
  429: 'ThrottlingException',
  500: 'InternalServerException',
  503: 'ServiceUnavailableException',
}
