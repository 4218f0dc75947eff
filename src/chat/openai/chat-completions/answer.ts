import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { usageIn } from '../../../metering/openai-usage.ts'
import { chatError } from '../../hub/error.ts'
import { bodyOf, compact, extrasOf, type FieldReader, lenientFields, ownExtras } from '../../hub/fields.ts'
import type { AnswerOptions, DecodeOptions } from '../../hub/format.ts'
import type {
  ChatAnswer,
  ChatError,
  Choice,
  Citation,
  MediaPart,
  Part,
  TextPart,
  ToolCallPart,
} from '../../hub/hub.ts'
import { isImage, parseDataUrl, urlOf } from '../../hub/media.ts'
import { modelOfAnswer } from '../../hub/model-name.ts'
import {
  decodeAnnotation,
  decodeContent,
  decodeReasoning,
  decodeToolCall,
  encodeAnnotation,
  encodeReasoning,
  encodeToolCall,
  FORMAT,
  withListedMark,
  withTextSignature,
} from './content.ts'
import { errorInside } from './error.ts'
import { decodeLogprobs, encodeLogprobs } from './logprobs.ts'
import { sourcesIn } from './sources.ts'
import { decodeStop, FAILED, finishReason } from './stop.ts'
import { encodeUsage } from './usage.ts'

export function decodeAnswer(body: unknown, options: DecodeOptions): ChatAnswer | { error: ChatError } {
  if (!isObject(body))
    return { error: chatError('server', 'The response of the provider is not a JSON object.') }
  if (member(body, 'error')) return { error: errorInside(body) }
  const answer = lenientFields(body)
  const choices = answer.list('choices')
  if (choices === undefined)
    return { error: chatError('server', 'The response of the provider has no choices.') }
  const ordered = answer
    .each('choices')
    .map((choice, at) => ({ choice, at: choice.number('index') ?? at }))
    .sort((one, other) => one.at - other.at)
  const failed = ordered.find(({ choice }) => FAILED.has(choice.text('finish_reason') ?? ''))
  if (failed !== undefined)
    return { error: chatError('server', 'The provider could not finish the response.') }
  answer.any('object')
  answer.any('usage')
  const sources = sourcesIn(body).map(withListedMark)
  return compact<ChatAnswer>({
    id: answer.text('id') ?? '',
    model: answer.text('model') ?? '',
    createdS: answer.number('created'),
    choices: ordered.map(({ choice }) => decodeChoice(choice, sources, options.idsAndClock.newId)),
    usage: usageIn(body, options.usage),
    extras: extrasOf(FORMAT, answer.rest()),
  })
}

function decodeChoice(
  choice: FieldReader,
  sources: readonly Citation[],
  newId: (prefix: string) => string,
): Choice {
  // A filtered choice may have no message.
  const message = choice.fields('message') ?? lenientFields({})
  const parts = decodeMessage(message, sources, newId)
  const logprobs = decodeLogprobs(choice.any('logprobs'))
  const hasCalls = parts.some(part => part.type === 'toolCall')
  const reason = decodeStop(choice.text('finish_reason') ?? 'stop', hasCalls)
  const extras = extrasOf(FORMAT, choice.rest())
  return {
    parts,
    stop: { reason, ...(extras && { extras }) },
    ...(logprobs.length > 0 && { logprobs }),
  }
}

function decodeMessage(
  message: FieldReader,
  sources: readonly Citation[],
  newId: (prefix: string) => string,
): readonly Part[] {
  const annotated = (message.list('annotations') ?? []).flatMap(each => decodeAnnotation(each) ?? [])
  const others = sources.filter(source => !annotated.some(({ url }) => url === source.url))
  const content = cited(decodeContent(message), [...annotated, ...others])
  const refusal = message.text('refusal')
  return [
    ...withTextSignature(decodeReasoning(message), content),
    ...(refusal ? [{ type: 'refusal', text: refusal } as const] : []),
    ...decodeImages(message.list('images') ?? []),
    ...decodeAudio(message.fields('audio')),
    ...message.each('tool_calls').map(call => decodeToolCall(call, newId)),
  ]
}

/** Annotations apply to the entire message, which in practice has one text. */
function cited(parts: readonly Part[], citations: NonNullable<TextPart['citations']>): readonly Part[] {
  if (citations.length === 0) return parts
  const first = parts.findIndex(part => part.type === 'text')
  return parts.map((part, at) => (at === first ? ({ ...part, citations } as TextPart) : part))
}

/** Images in answers are a de facto extension of hosts. */
export function decodeImages(images: readonly unknown[]): readonly MediaPart[] {
  return images.flatMap(image => {
    const url = member(member(image, 'image_url'), 'url')
    if (typeof url !== 'string') return []
    const inline = parseDataUrl(url)
    const source = inline === undefined ? { url } : { data: inline.data }
    return [compact<MediaPart>({ type: 'media', kind: 'image', source, mediaType: inline?.mediaType })]
  })
}

function decodeAudio(audio: FieldReader | undefined): readonly MediaPart[] {
  if (audio === undefined) return []
  return [
    compact<MediaPart>({
      type: 'media',
      kind: 'audio',
      source: { data: audio.text('data') ?? '' },
      transcript: audio.text('transcript'),
      extras: extrasOf(FORMAT, audio.rest()),
    }),
  ]
}

export function encodeAnswer(answer: ChatAnswer, { idsAndClock, request }: AnswerOptions): JsonObject {
  const isFirstForm = request?.isFirstForm === true
  return bodyOf({
    ...ownExtras(FORMAT, answer),
    id: answer.id || idsAndClock.newId('chatcmpl-'),
    object: 'chat.completion',
    created: answer.createdS ?? idsAndClock.nowS(),
    model: modelOfAnswer(answer.model, request),
    choices: answer.choices.map((choice, index) => encodeChoice(choice, index, isFirstForm)),
    usage: answer.usage && encodeUsage(answer.usage),
  })
}

function encodeChoice({ parts, stop, logprobs }: Choice, index: number, isFirstForm: boolean): JsonObject {
  return {
    ...ownExtras(FORMAT, stop),
    index,
    message: encodeMessage(parts, isFirstForm),
    logprobs: logprobs === undefined ? null : encodeLogprobs(logprobs),
    finish_reason: finishReason(stop.reason, isFirstForm),
  }
}

function encodeMessage(parts: readonly Part[], isFirstForm: boolean): JsonObject {
  let text: string | null = null
  const annotations: JsonObject[] = []
  for (const part of parts) {
    if (part.type !== 'text') continue
    const from: number = text === null ? 0 : text.length
    text = (text ?? '') + part.text
    for (const each of part.citations ?? []) annotations.push(...encodeAnnotation(each, from, text.length))
  }
  const refusals = parts.filter(part => part.type === 'refusal').map(part => part.text)
  const calls = parts.filter((part): part is ToolCallPart => part.type === 'toolCall')
  const images = parts.filter(isImage).flatMap(encodeImage)
  const audio = parts.find(isAudio)
  return {
    role: 'assistant',
    content: text ?? (calls.length > 0 || refusals.length > 0 || audio !== undefined ? null : ''),
    refusal: refusals.length > 0 ? refusals.join('') : null,
    ...encodeReasoning(parts),
    ...(annotations.length > 0 && { annotations }),
    ...(images.length > 0 && { images }),
    ...(audio !== undefined && { audio: encodeAudio(audio) }),
    ...encodeCalls(calls, isFirstForm),
  }
}

/** A client with the deprecated `functions` expects one call per answer. */
function encodeCalls(calls: readonly ToolCallPart[], isFirstForm: boolean): JsonObject {
  const [first] = calls
  if (first === undefined) return {}
  if (!isFirstForm) return { tool_calls: calls.map(encodeToolCall) }
  return { function_call: { name: first.name, arguments: first.arguments } }
}

const isAudio = (part: Part): part is MediaPart => part.type === 'media' && part.kind === 'audio'

export function encodeImage({ source, mediaType }: MediaPart): readonly JsonObject[] {
  const url = urlOf(source, mediaType)
  return url === undefined ? [] : [{ type: 'image_url', image_url: { url } }]
}

export const encodeAudio = (part: MediaPart): JsonObject => ({
  ...ownExtras(FORMAT, part),
  data: 'data' in part.source ? part.source.data : '',
  transcript: part.transcript ?? '',
})
