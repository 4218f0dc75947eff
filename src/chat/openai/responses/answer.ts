import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { chatError } from '../../hub/error.ts'
import { bodyOf, compact, extrasOf, lenientFields, ownExtras } from '../../hub/fields.ts'
import type { AnswerOptions, DecodeOptions } from '../../hub/format.ts'
import type {
  ChatAnswer,
  ChatError,
  ChatRequest,
  MediaPart,
  Part,
  ReasoningPart,
  Stop,
  TokenLogprob,
  ToolCallPart,
} from '../../hub/hub.ts'
import { mediaText, urlOf } from '../../hub/media.ts'
import { modelOfAnswer } from '../../hub/model-name.ts'
import {
  attachSignatures,
  packCallSignature,
  packReasoningSignature,
  textSignatureThought,
} from '../../hub/signature.ts'
import { errorInside } from '../chat-completions/error.ts'
import { encodeLogprobs } from '../chat-completions/logprobs.ts'
import {
  callItem,
  decodeItem,
  FORMAT,
  grouped,
  logprobsIn,
  outputText,
  reasoningItem,
  splitExtras,
} from './content.ts'
import { encodeRequest } from './encode-request.ts'
import { callsIn, encodeUsage, usageIn } from './usage.ts'

/** The members that are decoded; all others become extras. */
const KNOWN = ['object', 'status', 'error', 'incomplete_details', 'output', 'usage', 'output_text'] as const

export function decodeAnswer(body: unknown, options: DecodeOptions): ChatAnswer | { error: ChatError } {
  if (!isObject(body))
    return { error: chatError('server', 'The response of the provider is not a JSON object.') }
  const failure = failureIn(body)
  if (failure !== undefined) return { error: failure }
  if (!Array.isArray(body.output)) {
    return { error: chatError('server', 'The response of the provider has no output.') }
  }
  const answer = lenientFields(body)
  const parts = partsOf(body, options)
  const logprobs = body.output.flatMap(logprobsIn)
  for (const name of KNOWN) answer.any(name)
  return compact<ChatAnswer>({
    id: answer.text('id') ?? '',
    model: answer.text('model') ?? '',
    createdS: answer.number('created_at'),
    choices: [{ parts, stop: decodeStop(body, hasCalls(parts)), ...(logprobs.length > 0 && { logprobs }) }],
    usage: usageIn(body, options.usage),
    toolCalls: callsIn(body),
    extras: extrasOf(FORMAT, answer.rest()),
  })
}

/** The error of a failed response; undefined: it has not failed. */
export function failureIn(response: JsonObject): ChatError | undefined {
  if (member(response, 'error')) return errorInside(response)
  if (response.status === 'failed')
    return chatError('server', 'The provider failed without an error message.')
  return response.status === 'cancelled' ? chatError('server', 'The response was canceled.') : undefined
}

export const partsOf = (response: JsonObject, { idsAndClock }: DecodeOptions): readonly Part[] =>
  attachSignatures(
    lenientFields(response)
      .each('output')
      .flatMap(item => decodeItem(item, idsAndClock.newId)),
  )

const hasCalls = (parts: readonly Part[]): boolean => parts.some(part => part.type === 'toolCall')

export function decodeStop(response: JsonObject, hasCalls: boolean): Stop {
  const why = member(response.incomplete_details, 'reason')
  if (response.status === 'incomplete') return { reason: why === 'content_filter' ? 'filter' : 'length' }
  return { reason: hasCalls ? 'tools' : 'stop' }
}

// --- Writing ------------------------------------------------------------------------------------------------------

/** An answer in this format has one choice. */
export function encodeAnswer(answer: ChatAnswer, options: AnswerOptions): JsonObject {
  const { idsAndClock } = options
  const [choice] = answer.choices
  return {
    ...frameOf(answer, options),
    ...encodeStop(choice?.stop ?? { reason: 'stop' }),
    output: encodeParts(choice?.parts ?? [], choice?.logprobs, idsAndClock.newId),
    usage: answer.usage === undefined ? null : encodeUsage(answer.usage),
  }
}

type Head = Pick<ChatAnswer, 'id' | 'model' | 'createdS' | 'extras'>

/** The members around the output of every response object: id, model, and fields of the request. */
export function frameOf(head: Head, { idsAndClock, request }: AnswerOptions): JsonObject {
  const { id, model, createdS, extras } = head
  return {
    ...(extras?.[FORMAT] ?? echo(request)),
    id: responseId(id, idsAndClock.newId),
    object: 'response',
    created_at: createdS ?? idsAndClock.nowS(),
    status: 'in_progress',
    error: null,
    incomplete_details: null,
    model: modelOfAnswer(model, request),
    output: [],
    usage: null,
  }
}

function responseId(id: string, newId: (prefix: string) => string): string {
  if (id === '') return newId('resp_')
  return id.startsWith('resp_') ? id : `resp_${id}`
}

/** The parameters of the request, which the answer repeats. */
function echo(request: ChatRequest | undefined): JsonObject {
  const requestFields = request === undefined ? {} : encodeRequest({ ...request, messages: [] }).body
  const { text, reasoning } = requestFields
  return {
    background: false,
    instructions: null,
    max_output_tokens: requestFields.max_output_tokens ?? null,
    max_tool_calls: null,
    metadata: requestFields.metadata ?? {},
    parallel_tool_calls: requestFields.parallel_tool_calls ?? true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null, ...(isObject(reasoning) && reasoning) },
    service_tier: requestFields.service_tier ?? 'default',
    store: false,
    temperature: requestFields.temperature ?? 1,
    text: { format: { type: 'text' }, ...(isObject(text) && text) },
    tool_choice: requestFields.tool_choice ?? 'auto',
    tools: requestFields.tools ?? [],
    top_logprobs: requestFields.top_logprobs ?? 0,
    top_p: requestFields.top_p ?? 1,
    truncation: 'disabled',
    user: requestFields.user ?? null,
  }
}

const INCOMPLETE: Readonly<Partial<Record<Stop['reason'], string>>> = {
  length: 'max_output_tokens',
  context: 'max_output_tokens',
  filter: 'content_filter',
}

export function encodeStop({ reason }: Stop): JsonObject {
  const why = INCOMPLETE[reason]
  return why === undefined
    ? { status: 'completed' }
    : { status: 'incomplete', incomplete_details: { reason: why } }
}

function encodeParts(
  parts: readonly Part[],
  logprobs: readonly TokenLogprob[] | undefined,
  newId: (prefix: string) => string,
): readonly JsonObject[] {
  // The format does not report which text the log probabilities belong to; in practice it is the first.
  let tokens = logprobs
  return grouped(parts).flatMap(group => {
    const [first] = group
    switch (first?.type) {
      case 'text':
      case 'refusal': {
        const content = group.map(part => {
          const encodedPart = contentPart(part, part.type === 'text' ? tokens : undefined)
          if (part.type === 'text') tokens = undefined
          return encodedPart
        })
        return [
          { ...splitExtras(first).item, ...messageItem(newId('msg_'), content) },
          ...textSignatureItem(group.at(-1), newId),
        ]
      }
      case 'reasoning':
        return [reasoningItem(group as readonly ReasoningPart[], first.id ?? newId('rs_'))]
      case 'toolCall':
        return [
          ...callSignatureItem(first, newId),
          { id: newId('fc_'), ...callItem(first), status: 'completed' },
        ]
      case 'media':
        return [mediaItem(first, newId)]
      case 'vendor':
        return first.format === FORMAT ? [first.value] : []
      default:
        return []
    }
  })
}

export const messageItem = (
  id: string,
  content: readonly JsonObject[],
  status = 'completed',
): JsonObject => ({
  id,
  type: 'message',
  status,
  role: 'assistant',
  content,
})

export function contentPart(part: Part, tokens: readonly TokenLogprob[] = []): JsonObject {
  if (part.type === 'refusal') return { type: 'refusal', refusal: part.text }
  if (part.type === 'text') return { ...outputText(part), logprobs: encodeLogprobs(tokens).content }
  return { type: 'output_text', text: '', annotations: [], logprobs: [] }
}

/** Calls have no signature field in this format: the signature is sent in an empty reasoning item before the call. */
export const callSignatureItem = (call: ToolCallPart, newId: (prefix: string) => string) =>
  signatureItem(packCallSignature(FORMAT, call), newId)

/** The signature of a text is sent in an empty reasoning item after it. */
export const textSignatureItem = (part: Part | undefined, newId: (prefix: string) => string) =>
  part?.type === 'text' && part.signature !== undefined
    ? signatureItem(packReasoningSignature(FORMAT, textSignatureThought(part.signature)), newId)
    : []

const signatureItem = (
  packed: string | undefined,
  newId: (prefix: string) => string,
): readonly JsonObject[] =>
  packed === undefined
    ? []
    : [{ id: newId('rs_'), type: 'reasoning', summary: [], encrypted_content: packed }]

/** An image becomes the result of the vendor's own image tool; other media become text. */
export function mediaItem(part: MediaPart, newId: (prefix: string) => string): JsonObject {
  const { kind, source, mediaType } = part
  if (kind === 'image' && 'data' in source) {
    return bodyOf({
      ...ownExtras(FORMAT, part),
      id: newId('ig_'),
      type: 'image_generation_call',
      status: 'completed',
      output_format: mediaType?.replace('image/', ''),
      result: source.data,
    })
  }
  const text = urlOf(source, mediaType) === undefined && part.transcript === undefined ? '' : mediaText(part)
  return messageItem(newId('msg_'), [contentPart({ type: 'text', text })])
}
