import Anthropic from '@anthropic-ai/sdk'
import { type GenerateContentResponse, GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { bedrock } from '../../src/chat/anthropic/bedrock/format.ts'
import { withCalledTools } from '../../src/chat/anthropic/messages/encode-request.ts'
import { anthropic } from '../../src/chat/anthropic/messages/format.ts'
import { enforcedSchema } from '../../src/chat/anthropic/messages/schema.ts'
import { cohere } from '../../src/chat/cohere/format.ts'
import { gemini } from '../../src/chat/gemini/format.ts'
import { borderAt } from '../../src/chat/gemini/grounding.ts'
import { isEmptySchema } from '../../src/chat/gemini/schema.ts'
import { compact } from '../../src/chat/hub/fields.ts'
import type { Format, Outbound } from '../../src/chat/hub/format.ts'
import type { ChatAnswer, ChatRequest, Choice, Message, Part, Tool } from '../../src/chat/hub/hub.ts'
import { createWarnings } from '../../src/chat/hub/warnings.ts'
import { ollama } from '../../src/chat/ollama/format.ts'
import { openaiChat } from '../../src/chat/openai/chat-completions/format.ts'
import { responses } from '../../src/chat/openai/responses/format.ts'
import type { JsonObject } from '../../src/domain/json-value.ts'
import { EMPTY, totalInput, totalOutput, type Usage } from '../../src/domain/usage.ts'
import { claudeGeneration } from '../../src/models/generation.ts'
import { eventFrame } from './corpus.ts'
import type { SOURCES } from './format-recordings.ts'

/** What a client's own SDK parsed from a response. */
export type Understood = {
  readonly text: string
  readonly calls: readonly { name: string; input: unknown }[]
}

/** A format under test. A new one needs one entry; one that only providers use has no `client`. */
export type Lawful = {
  readonly format: Outbound
  readonly transcripts: keyof typeof SOURCES
  /** Splits a stream between its events; SSE by default. */
  readonly events?: (bytes: Buffer) => readonly Buffer[]
  /** An unknown event, inserted between any two others. */
  readonly strange: Buffer
  readonly client?: Client
}

/** The client side of a format, with the vendor's own SDK as the reference. */
export type Client = {
  readonly format: Format
  /**
   * What the format may drop from a request without a warning, because no meaning is lost: names for the same
   * thing, explicit defaults. Applied to both sides of the comparison.
   */
  readonly fitRequest: (request: ChatRequest) => ChatRequest
  /** The part of a response that the format can express: responses have no warnings. */
  readonly fitAnswer: (answer: ChatAnswer) => ChatAnswer
  readonly readStream: (bytes: Buffer) => Promise<Understood>
  /** The SDK's stream parser does not support calls of custom tools, though the vendor sends them. */
  readonly refusesCustomCalls?: true
  /** The format has no audio in responses: the client gets the transcript as text. */
  readonly showsTranscripts?: true
  readonly readWhole: (body: unknown) => Promise<Understood>
}

const answering = (bytes: Buffer | string, contentType: string) => async () =>
  new Response(bytes as never, { headers: { 'content-type': contentType } })

const chatClient: Client = {
  format: openaiChat,
  refusesCustomCalls: true,
  fitRequest: ({
    includeUsage: _,
    isFirstForm: __,
    reasoning,
    tools,
    toolChoice,
    parallelTools,
    ...request
  }) => ({
    ...request,
    // Without tools, providers reject an empty list, a tool choice and a setting of parallel calls.
    ...(tools?.length && compact<Partial<ChatRequest>>({ tools, toolChoice, parallelTools })),
    // Adaptive reasoning has no field here: it is the default of the models.
    ...(reasoning && !reasoning.isAdaptive && { reasoning }),
    ...(request.output?.type === 'schema' && { output: { name: 'answer', ...request.output } }),
  }),
  fitAnswer: answer => ({
    ...answer,
    choices: answer.choices.map(choice => ({
      ...choice,
      parts: choice.parts.map(part =>
        part.type === 'text' && part.citations !== undefined
          ? { ...part, citations: part.citations.map(({ quote: _, ...rest }) => rest) }
          : part,
      ),
      stop: { reason: choice.stop.reason === 'sequence' ? 'stop' : choice.stop.reason },
    })),
    ...(answer.usage && {
      usage: {
        ...answer.usage,
        cacheWrite: answer.usage.cacheWrite + answer.usage.cacheWrite1h,
        cacheWrite1h: 0,
        searches: 0,
      },
    }),
  }),
  async readStream(bytes) {
    const client = new OpenAI({
      apiKey: 'sk-x',
      maxRetries: 0,
      fetch: answering(bytes, 'text/event-stream'),
    })
    const stream = client.chat.completions.stream({ model: 'x', messages: [] })
    return understoodChat(await stream.finalChatCompletion())
  },
  async readWhole(body) {
    const fetch = answering(JSON.stringify(body), 'application/json')
    const client = new OpenAI({ apiKey: 'sk-x', maxRetries: 0, fetch })
    return understoodChat(await client.chat.completions.create({ model: 'x', messages: [] }))
  },
}

const messagesClient: Client = {
  format: anthropic,
  showsTranscripts: true,
  fitRequest: fitAnthropicRequest,
  fitAnswer: answer => {
    const [choice] = answer.choices
    const { createdS: _, ...rest } = answer
    return {
      ...rest,
      choices: choice === undefined ? [] : [{ parts: choice.parts.map(fitAnthropicPart), stop: choice.stop }],
      usage: fitAnthropicUsage(answer.usage ?? EMPTY),
    }
  },
  async readStream(bytes) {
    const client = new Anthropic({
      apiKey: 'x',
      maxRetries: 0,
      fetch: answering(bytes, 'text/event-stream'),
    })
    const stream = client.messages.stream({ model: 'x', max_tokens: 1, messages: [] })
    return understoodMessage(await stream.finalMessage())
  },
  async readWhole(body) {
    const fetch = answering(JSON.stringify(body), 'application/json')
    const client = new Anthropic({ apiKey: 'x', maxRetries: 0, fetch })
    return understoodMessage(await client.messages.create({ model: 'x', max_tokens: 1, messages: [] }))
  },
}

const responsesClient: Client = {
  format: responses,
  showsTranscripts: true,
  fitRequest: request => {
    const { includeUsage: _, choices, tools, reasoning, output, ...rest } = request
    const { isReturned: __, ...wish } = reasoning ?? {}
    return compact<ChatRequest>({
      ...rest,
      choices: choices === 1 ? undefined : choices,
      // Schemas are strict by default; no parameters are an empty object schema.
      tools: tools?.map(tool =>
        tool.type === 'function'
          ? { strict: false, parameters: { type: 'object', properties: {} }, ...tool }
          : tool,
      ),
      reasoning: Object.keys(wish).length === 0 ? undefined : wish,
      output: output?.type === 'schema' ? { name: 'answer', ...output } : output,
    })
  },
  fitAnswer: answer => {
    const { extras: _, usage, ...rest } = answer
    const [choice = { parts: [], stop: { reason: 'stop' } }] = answer.choices
    const { parts, stop, logprobs } = choice
    const isEmpty = usage === undefined || totalInput(usage) + totalOutput(usage) === 0
    return compact<ChatAnswer>({
      ...rest,
      id: answer.id.startsWith('resp_') ? answer.id : `resp_${answer.id}`,
      choices: [
        compact<Choice>({
          parts: parts.map(fitResponsesPart),
          stop: { reason: stop.reason === 'sequence' ? 'stop' : stop.reason },
          logprobs: parts.some(part => part.type === 'text') ? logprobs : undefined,
        }),
      ],
      // No prompt is empty: usage with only zeros is no usage.
      usage: isEmpty
        ? undefined
        : { ...usage, cacheWrite: usage.cacheWrite + usage.cacheWrite1h, cacheWrite1h: 0 },
    })
  },
  async readStream(bytes) {
    const client = new OpenAI({ apiKey: 'sk-x', maxRetries: 0, fetch: answering(bytes, 'text/event-stream') })
    return understoodResponse(await client.responses.stream({ model: 'x', input: '' }).finalResponse())
  },
  async readWhole(body) {
    const fetch = answering(JSON.stringify(body), 'application/json')
    const client = new OpenAI({ apiKey: 'sk-x', maxRetries: 0, fetch })
    return understoodResponse(await client.responses.create({ model: 'x', input: '' }))
  },
}

function fitResponsesPart(part: Part): Part {
  if (part.type === 'reasoning') {
    const { id: _, ...rest } = part
    return rest
  }
  if (part.type !== 'text' || part.citations === undefined) return part
  return { ...part, citations: part.citations.map(({ quote: _, ...citation }) => citation) }
}

function understoodResponse({
  output,
}: {
  output: readonly OpenAI.Responses.ResponseOutputItem[]
}): Understood {
  return {
    text: output
      .flatMap(item => (item.type === 'message' ? item.content : []))
      .map(part => (part.type === 'output_text' ? withoutImage(part.text) : part.refusal))
      .join(''),
    calls: output.flatMap(item => {
      if (item.type === 'function_call') return [{ name: item.name, input: JSON.parse(item.arguments) }]
      return item.type === 'custom_tool_call' ? [{ name: item.name, input: { input: item.input } }] : []
    }),
  }
}

const geminiClient: Client = {
  format: gemini,
  fitRequest: request => {
    const { tools, toolChoice, parallelTools, includeUsage: _, reasoning, output, ...rest } = request
    return compact<ChatRequest>({
      ...rest,
      messages: request.messages.map(message => ({
        ...message,
        role: message.role === 'developer' ? 'system' : message.role,
        content: message.content.filter(part => part.type !== 'text' || part.text !== '').map(fitGeminiPart),
      })),
      tools: tools?.map(tool => {
        if (tool.type !== 'function') return tool
        const { parameters, strict: __, ...declared } = tool
        return parameters === undefined || isEmptySchema(parameters) ? declared : { ...declared, parameters }
      }),
      // Without tools there is no tool choice, and calls are parallel by default.
      toolChoice: tools === undefined ? undefined : toolChoice,
      parallelTools: tools === undefined || parallelTools === true ? undefined : parallelTools,
      // Effort is a budget for some models; reasoning is returned by default.
      reasoning: reasoning?.effort === 'none' ? reasoning : undefined,
      output: output?.type === 'schema' ? { type: output.type, schema: output.schema } : output,
    })
  },
  fitAnswer: answer => ({
    ...answer,
    choices: answer.choices.map(({ parts, stop, logprobs }) =>
      compact<Choice>({
        parts: fitGeminiParts(parts),
        stop: { reason: stop.reason === 'sequence' ? 'stop' : stop.reason },
        logprobs: logprobs?.map(({ bytes: _, top, ...token }) => ({
          ...token,
          top: top.map(({ bytes: __, ...other }) => other),
        })),
      }),
    ),
    ...(answer.usage && {
      usage: {
        ...answer.usage,
        input: answer.usage.input + answer.usage.cacheWrite + answer.usage.cacheWrite1h,
        cacheWrite: 0,
        cacheWrite1h: 0,
        searches: 0,
      },
    }),
  }),
  async readStream(bytes) {
    const chunks: GenerateContentResponse[] = []
    const models = geminiModels(bytes, 'text/event-stream')
    for await (const chunk of await models.generateContentStream({ model: 'x', contents: 'x' })) {
      chunks.push(chunk)
    }
    return understoodGemini(chunks)
  },
  async readWhole(body) {
    const models = geminiModels(JSON.stringify(body), 'application/json')
    return understoodGemini([await models.generateContent({ model: 'x', contents: 'x' })])
  },
}

const geminiModels = (bytes: Buffer | string, contentType: string) =>
  new GoogleGenAI({ apiKey: 'x', httpOptions: { fetch: answering(bytes, contentType) } }).models

/** A URL has a type only if one is guessed; texts of a result come before its media. */
function fitGeminiPart(part: Part): Part {
  if (part.type === 'media' && 'url' in part.source) {
    const { mediaType: _, ...rest } = part
    return rest
  }
  return part
}

/** Refusals are texts, and adjacent texts are one: a stream has no boundaries between them. */
function fitGeminiParts(parts: readonly Part[]): readonly Part[] {
  const fitted: Part[] = []
  for (const part of parts) {
    const last = fitted.at(-1)
    const isText = part.type === 'text' || part.type === 'refusal'
    if (!isText) fitted.push(part)
    else if (last?.type === 'text') fitted[fitted.length - 1] = { ...last, text: last.text + part.text }
    else fitted.push(part.type === 'text' ? fitGeminiText(part) : { type: 'text', text: part.text })
  }
  return fitted
}

const fitGeminiText = (part: Extract<Part, { type: 'text' }>): Part =>
  part.citations === undefined
    ? part
    : {
        ...part,
        citations: part.citations.map(({ quote: _, end, ...citation }) => ({
          ...citation,
          ...(end !== undefined && { end: borderAt(part.text, end) }),
        })),
      }

function understoodGemini(chunks: readonly GenerateContentResponse[]): Understood {
  const parts = chunks
    .flatMap(({ candidates = [] }) => candidates.filter(({ index = 0 }) => index === 0))
    .flatMap(({ content }) => content?.parts ?? [])
  return {
    text: parts.map(({ text = '', thought }) => (thought ? '' : withoutImage(text))).join(''),
    calls: parts.flatMap(({ functionCall: call }) =>
      call === undefined ? [] : [{ name: call.name ?? '', input: call.args }],
    ),
  }
}

export const LAWFUL: readonly Lawful[] = [
  {
    format: openaiChat,
    transcripts: 'openai-chat',
    strange: Buffer.from('data: {"object":"something.new","choices":[],"a_field":{"of":"tomorrow"}}\n\n'),
    client: chatClient,
  },
  {
    format: anthropic,
    transcripts: 'anthropic',
    strange: Buffer.from(
      'event: something_new\ndata: {"type":"something_new","a_field":{"of":"tomorrow"}}\n\n',
    ),
    client: messagesClient,
  },
  {
    format: responses,
    transcripts: 'responses',
    strange: Buffer.from(
      'event: response.new\ndata: {"type":"response.new","a_field":{"of":"tomorrow"}}\n\n',
    ),
    client: responsesClient,
  },
  {
    format: gemini,
    transcripts: 'gemini',
    strange: Buffer.from('data: {"somethingNew":{"of":"tomorrow"},"modelStatus":{"a":1}}\n\n'),
    client: geminiClient,
  },
  {
    format: bedrock,
    transcripts: 'bedrock',
    events: eventFrames,
    strange: eventFrame('somethingNew', { aField: { of: 'tomorrow' } }),
  },
  {
    format: cohere,
    transcripts: 'cohere',
    strange: Buffer.from(
      'event: something-new\ndata: {"type":"something-new","a_field":{"of":"tomorrow"}}\n\n',
    ),
  },
  {
    format: ollama,
    transcripts: 'ollama',
    events: bytes =>
      bytes
        .toString()
        .split(/(?<=\n)/)
        .map(line => Buffer.from(line)),
    strange: Buffer.from('{"a_field":{"of":"tomorrow"}}\n'),
  },
]

function eventFrames(bytes: Buffer): readonly Buffer[] {
  const frames: Buffer[] = []
  for (let at = 0; at < bytes.length; at += bytes.readUInt32BE(at)) {
    frames.push(bytes.subarray(at, at + bytes.readUInt32BE(at)))
  }
  return frames
}

/** The bytes of each event of an SSE stream. */
export const sseEvents = (bytes: Buffer): readonly Buffer[] =>
  bytes
    .toString()
    .split(/(?<=\r?\n\r?\n)/)
    .map(text => Buffer.from(text))

function understoodChat({ choices: [choice] }: OpenAI.ChatCompletion): Understood {
  return {
    text: (choice?.message.content ?? '') + (choice?.message.refusal ?? ''),
    calls: (choice?.message.tool_calls ?? []).map(call =>
      call.type === 'function'
        ? { name: call.function.name, input: JSON.parse(call.function.arguments || '{}') }
        : { name: call.custom.name, input: { input: call.custom.input } },
    ),
  }
}

const understoodMessage = ({ content }: Anthropic.Message): Understood => ({
  text: content.map(block => (block.type === 'text' ? withoutImage(block.text) : '')).join(''),
  calls: content.flatMap(block =>
    block.type === 'tool_use' ? [{ name: block.name, input: block.input }] : [],
  ),
})

/** Some clients get images, and audio without a transcript, inside the text. */
const withoutImage = (text: string): string => text.replace(/^(!\[image\]\(.*\)|data:.*)$/, '')

/** What the hub parsed from the same response, as this client should see it. */
export function understood(
  answer: ChatAnswer,
  { showsTranscripts }: Pick<Client, 'showsTranscripts'>,
): Understood {
  const parts = answer.choices[0]?.parts ?? []
  const textOf = (part: Part): string => {
    if (part.type === 'text' || part.type === 'refusal') return withoutImage(part.text)
    return part.type === 'media' && showsTranscripts ? (part.transcript ?? '') : ''
  }
  return {
    text: parts.map(textOf).join(''),
    calls: parts.flatMap(part =>
      part.type === 'toolCall'
        ? [{ name: part.name, input: part.isCustom ? { input: part.arguments } : JSON.parse(part.arguments) }]
        : [],
    ),
  }
}

/** Adjacent turns of one role are one turn in some formats and two in others. */
export function merged(request: ChatRequest): ChatRequest {
  const messages: Message[] = []
  for (const message of request.messages) {
    const last = messages.at(-1)
    if (last?.role === message.role) {
      messages[messages.length - 1] = { ...last, content: [...last.content, ...message.content] }
    } else messages.push(message)
  }
  return { ...request, messages }
}

function fitAnthropicRequest(originalRequest: ChatRequest): ChatRequest {
  const request = withCalledTools(originalRequest)
  const { tools, toolChoice, parallelTools, choices, reasoning, output, maxTokens: _, ...rest } = request
  const effort = reasoning?.effort
  const isBudgeted =
    reasoning?.budget !== undefined ||
    (effort !== 'none' && claudeGeneration(request.model).thinking === 'budget')
  const { temperature, topP } = request
  const isPair =
    temperature !== undefined && topP !== undefined && claudeGeneration(request.model).sampling !== 'both'
  return compact<ChatRequest>({
    ...rest,
    // Of two settings that exclude each other, a default is dropped.
    temperature: isPair && temperature === 1 && topP !== 1 ? undefined : temperature,
    topP: isPair && topP === 1 ? undefined : topP,
    messages: request.messages.map(message => ({
      ...message,
      role: message.role === 'developer' ? 'system' : message.role,
      content: message.content.filter(part => part.type !== 'text' || part.text !== ''),
    })),
    tools: tools?.length === 0 ? undefined : tools?.map(tool => fitAnthropicTool(tool, request.model)),
    // Without tools there is no tool choice, and it is explicit only if parallel calls are disabled.
    toolChoice: tools === undefined || toolChoice?.mode === 'auto' ? undefined : toolChoice,
    parallelTools:
      tools === undefined || toolChoice?.mode === 'none' || parallelTools !== false ? undefined : false,
    choices: choices === 1 ? undefined : choices,
    // A limit is required; how the model reasons depends on its generation.
    reasoning: isBudgeted || effort === undefined ? undefined : { effort },
    output: output?.type === 'schema' ? { type: output.type, schema: closed(output.schema) } : output,
  })
}

/** A strict schema allows no additional properties. */
const closed = (schema: JsonObject): JsonObject => enforcedSchema(schema, '', createWarnings())

function fitAnthropicTool(tool: Tool, model: string): Tool {
  if (tool.type !== 'function') return tool
  const { strict, parameters, ...rest } = tool
  const { takesSchemas } = claudeGeneration(model)
  const isStrict = strict === true && takesSchemas
  const isSaid = isStrict || (strict === false && takesSchemas)
  const fitted = parameters && isStrict ? closed(parameters) : parameters
  return { ...rest, ...(fitted && { parameters: fitted }), ...(isSaid && { strict }) }
}

function fitAnthropicPart(part: Part): Part {
  if (part.type === 'refusal') return { type: 'text', text: part.text }
  if (part.type !== 'text' || part.citations === undefined) return part
  return {
    ...part,
    citations: part.citations.map(({ start: _, end: __, extras: ___, ...citation }) => citation),
  }
}

const fitAnthropicUsage = (usage: Usage): Usage => ({
  ...usage,
  input: usage.input + usage.audioInput + usage.imageInput,
  audioInput: 0,
  imageInput: 0,
})

export const hasCustomCall = (answer: ChatAnswer): boolean =>
  answer.choices.some(({ parts }) => parts.some(part => part.type === 'toolCall' && part.isCustom))
