import type { IncomingHttpHeaders } from 'node:http'
import { type AnswerChoice, answer, countOpening } from '../answer.ts'
import { isObject, textOf, type WireObject } from '../json.ts'
import { MODELS } from '../models.ts'
import { ProviderError } from '../provider-error.ts'
import { steer } from '../steering.ts'
import { countTokens, splitTokens } from '../tokens.ts'
import { vectorOf } from '../vector.ts'
import type { Failure, Inquiry, Protocol, Reply, StreamFrame } from './format.ts'
import {
  contentsOf,
  countPrompt,
  decodeAsk,
  parseRequest,
  SIGNATURE,
  type Thinking,
} from './gemini-request.ts'
import { decodeCount, missing } from './openai-request.ts'
import { interleave } from './openai-stream.ts'
import { cacheShares, thoughtFor } from './thought.ts'
import { inHeader } from './vendor.ts'

const MODEL = /^\/v1beta\/models\/([^/:]+)/.source
const method = (name: string) => new RegExp(`${MODEL}:${name}$`)

/** Google's Gemini: the path has the model and the method. */
export const gemini = {
  name: 'Gemini',
  keyOf,
  routes: [
    { method: 'POST', path: method('generateContent'), answer: answerWhole },
    { method: 'POST', path: method('streamGenerateContent'), answer: answerStream },
    { method: 'POST', path: method('countTokens'), answer: answerCount },
    { method: 'POST', path: method('embedContent'), answer: answerEmbedding },
    { method: 'POST', path: method('batchEmbedContents'), answer: answerEmbeddings },
    { method: 'GET', path: /^\/v1beta\/models$/, answer: listModels },
  ],
  encodeRefusal: ({ status, message }) => encodeStatus(status, message),
  encodeFailure,
} satisfies Protocol

const inOwnHeader = inHeader('x-goog-api-key')

function keyOf(headers: IncomingHttpHeaders): string | undefined {
  return inOwnHeader(headers) ?? /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
}

const objectOf = (value: unknown): WireObject => (isObject(value) ? value : {})

const modelOf = ({ params: [model = ''] }: Inquiry): string => decodeURIComponent(model)

// --- Chats --------------------------------------------------------------------------------------------------------

/** The fields that every chunk of an answer shares, and its content. */
type Envelope = { readonly modelVersion: string; readonly responseId: string }
type Completion = {
  readonly envelope: Envelope
  readonly choices: readonly AnswerChoice[]
  readonly thinking: Thinking
  /** The tokens of a thought, one for each choice. */
  readonly thought: readonly string[]
  readonly promptTokens: number
}

function complete(inquiry: Inquiry): Completion {
  const model = modelOf(inquiry)
  const request = parseRequest(inquiry.body)
  const { ask, choices, thinking } = decodeAsk(request, model, steer('words', inquiry.headers, model))
  const thought = thinking.isOn ? splitTokens(thoughtFor(ask)) : []
  return {
    envelope: { modelVersion: model, responseId: inquiry.id },
    // Thoughts count towards the limit.
    choices: Array.from({ length: choices }, (_, at) =>
      answer({ ...ask, maxTokens: Math.max(ask.maxTokens - thought.length, 0) }, at),
    ),
    thinking,
    thought,
    promptTokens: ask.promptTokens,
  }
}

const billOf = ({ envelope, promptTokens }: Completion) => ({
  id: envelope.responseId,
  model: envelope.modelVersion,
  promptTokens,
})

/** Cached tokens are part of the prompt; thoughts are not part of the candidates. */
function usageOf({ promptTokens, thought }: Completion, candidates: number, thinkers: number): WireObject {
  const thoughts = thought.length * thinkers
  const { cached } = cacheShares(promptTokens)
  return {
    promptTokenCount: promptTokens,
    candidatesTokenCount: candidates,
    totalTokenCount: promptTokens + candidates + thoughts,
    ...(cached > 0 && { cachedContentTokenCount: cached }),
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: promptTokens }],
    ...(thoughts > 0 && { thoughtsTokenCount: thoughts }),
  }
}

const finishReason = ({ isCut }: AnswerChoice): string => (isCut ? 'MAX_TOKENS' : 'STOP')

/** A call that was cut is omitted: its arguments are not valid JSON. */
function callsOf({ calls }: AnswerChoice, isSigned: boolean): readonly WireObject[] {
  return calls.flatMap(({ tool, tokens }, at) => {
    try {
      const functionCall = { name: tool.name, args: JSON.parse(tokens.join('')) as unknown }
      return [{ functionCall, ...(isSigned && at === 0 && { thoughtSignature: SIGNATURE }) }]
    } catch {
      return []
    }
  })
}

export function answerWhole(inquiry: Inquiry): Reply {
  const completion = complete(inquiry)
  const { choices, thinking, thought, envelope } = completion
  const candidates = choices.map((choice, index) => {
    const words = choice.text.join('')
    const signed = thinking.isOn ? { thoughtSignature: SIGNATURE } : {}
    const parts = [
      ...(thinking.isIncluded ? [{ text: thought.join(''), thought: true }] : []),
      ...(words === '' ? [] : [{ text: words, ...signed }]),
      ...callsOf(choice, thinking.isOn),
    ]
    const content = parts.length === 0 ? { role: 'model' } : { parts, role: 'model' }
    return { content, finishReason: finishReason(choice), index }
  })
  const tokens = choices.reduce((sum, choice) => sum + choice.tokenCount, 0)
  const usageMetadata = usageOf(completion, tokens, choices.length)
  return {
    kind: 'whole',
    body: JSON.stringify({ candidates, usageMetadata, ...envelope }),
    tokens: tokens + thought.length * choices.length,
    bill: billOf(completion),
  }
}

/** Server-sent events on request; otherwise the chunks are the entries of one list. */
export function answerStream(inquiry: Inquiry): Reply {
  const completion = complete(inquiry)
  const isEvents = inquiry.query.get('alt') === 'sse'
  const pieces = encodePieces(completion)
  return {
    kind: 'stream',
    contentType: isEvents ? 'text/event-stream' : 'application/json; charset=UTF-8',
    frames: isEvents ? eventsOf(pieces) : entriesOf(pieces),
    bill: billOf(completion),
  }
}

type Piece = { readonly json: WireObject; readonly tokens: number }

function* eventsOf(pieces: Iterable<Piece>): Generator<StreamFrame> {
  for (const { json, tokens } of pieces) yield { data: `data: ${JSON.stringify(json)}\r\n\r\n`, tokens }
}

function* entriesOf(pieces: Iterable<Piece>): Generator<StreamFrame> {
  let lead = '['
  for (const { json, tokens } of pieces) {
    yield { data: lead + JSON.stringify(json), tokens }
    lead = ',\r\n'
  }
  yield { data: ']', tokens: 0 }
}

type Progress = { candidates: number; thinkers: number }

/** Every chunk has the usage so far. */
function* encodePieces(completion: Completion): Generator<Piece> {
  const progress: Progress = { candidates: 0, thinkers: 0 }
  const speakers = completion.choices.map((choice, index) =>
    encodeCandidate(completion, choice, { index, progress }),
  )
  yield* interleave(speakers)
}

function* encodeCandidate(
  completion: Completion,
  choice: AnswerChoice,
  { index, progress }: { readonly index: number; readonly progress: Progress },
): Generator<Piece> {
  const { thinking, thought, envelope } = completion
  const piece = (parts: readonly WireObject[], tokens: number, rest: WireObject = {}): Piece => ({
    json: {
      candidates: [{ content: { parts, role: 'model' }, ...rest, index }],
      usageMetadata: usageOf(completion, progress.candidates, progress.thinkers),
      ...envelope,
    },
    tokens,
  })
  progress.thinkers += 1
  const opening = thinking.isIncluded ? [{ text: thought.join(''), thought: true }] : []
  if (thinking.isOn) yield piece(opening, thought.length)
  for (const token of choice.text) {
    progress.candidates += 1
    yield piece([{ text: token }], 1)
  }
  const calls = callsOf(choice, thinking.isOn)
  const callTokens = choice.calls.reduce((sum, call) => sum + countOpening(call) + call.tokens.length, 0)
  progress.candidates += callTokens
  if (callTokens > 0) yield piece(calls, callTokens)
  const isSigned = thinking.isOn && choice.text.length > 0
  const last = { text: '', ...(isSigned && { thoughtSignature: SIGNATURE }) }
  yield piece([last], 0, { finishReason: finishReason(choice) })
}

// --- The rest -----------------------------------------------------------------------------------------------------

function answerCount({ body }: Inquiry): Reply {
  const request = parseRequest(body)
  const inner = objectOf(request.generateContentRequest)
  const totalTokens = countPrompt(isObject(request.generateContentRequest) ? inner : request)
  const promptTokensDetails = [{ modality: 'TEXT', tokenCount: totalTokens }]
  return { kind: 'free', body: JSON.stringify({ totalTokens, promptTokensDetails }) }
}

const DIMENSIONS = 3072

function textIn(request: WireObject): string {
  if (!isObject(request.content)) throw missing('content')
  const [content = {}] = contentsOf({ contents: [request.content] })
  const parts = Array.isArray(content.parts) ? content.parts : []
  return parts.map(part => textOf(objectOf(part).text) ?? '').join(' ')
}

function embed(request: WireObject) {
  const dimensions = decodeCount(request, 'outputDimensionality', DIMENSIONS) ?? DIMENSIONS
  const text = textIn(request)
  if (text === '') throw new ProviderError('bad_value', 'Text content is empty.', 'content')
  return { embedding: { values: [...vectorOf(text, dimensions)] }, tokens: countTokens(text) }
}

function answerEmbedding(inquiry: Inquiry): Reply {
  const { embedding, tokens } = embed(parseRequest(inquiry.body))
  return embedded(inquiry, { embedding }, tokens)
}

function answerEmbeddings(inquiry: Inquiry): Reply {
  const { requests } = parseRequest(inquiry.body)
  if (!Array.isArray(requests) || !requests.every(isObject)) throw missing('requests')
  const answers = requests.map(embed)
  const promptTokens = answers.reduce((sum, { tokens }) => sum + tokens, 0)
  return embedded(inquiry, { embeddings: answers.map(({ embedding }) => embedding) }, promptTokens)
}

/** This vendor reports no usage of embeddings. */
function embedded(inquiry: Inquiry, body: WireObject, promptTokens: number): Reply {
  const bill = { id: `req_${inquiry.id}`, model: modelOf(inquiry), promptTokens }
  return { kind: 'whole', body: JSON.stringify(body), tokens: 0, bill }
}

function listModels(): Reply {
  const models = MODELS.map(({ id }) => ({
    name: `models/${id}`,
    displayName: id,
    inputTokenLimit: 1_048_576,
    outputTokenLimit: 65_536,
    supportedGenerationMethods: ['generateContent', 'countTokens'],
  }))
  return { kind: 'free', body: JSON.stringify({ models }) }
}

// --- Errors -------------------------------------------------------------------------------------------------------

const WORDS: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

function encodeStatus(code: number, message: string, details: readonly WireObject[] = []): string {
  const status = WORDS[code] ?? (code >= 500 ? 'INTERNAL' : 'INVALID_ARGUMENT')
  return JSON.stringify({ error: { code, message, status, ...(details.length > 0 && { details }) } })
}

/** The retry delay is in the body only, and insufficient credit has the status of a rate limit. */
function encodeFailure({ status, message, isOutOfQuota = false }: Failure): string {
  const retry = { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '1s' }
  const quota = 'You exceeded your current quota, please check your plan and billing details.'
  return encodeStatus(status, isOutOfQuota ? quota : message, status === 429 && !isOutOfQuota ? [retry] : [])
}
