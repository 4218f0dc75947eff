import { isObject, type JsonObject, member } from '../../domain/json-value.ts'
import { chatError } from '../hub/error.ts'
import { compact, extrasOf, type FieldReader, lenientFields, ownExtras } from '../hub/fields.ts'
import type { AnswerOptions, DecodeOptions } from '../hub/format.ts'
import type { ChatAnswer, ChatError, Choice, Part, Stop } from '../hub/hub.ts'
import { modelOfAnswer } from '../hub/model-name.ts'
import { isRefusal, stopOf } from '../hub/refusal.ts'
import { answerParts, decodePart, FORMAT } from './content.ts'
import { decodeError } from './error.ts'
import { decodeGrounding, encodeGrounding } from './grounding.ts'
import { decodeLogprobs, encodeLogprobs } from './logprobs.ts'
import { blockedStop, decodeStop, encodeStop, FAILED } from './stop.ts'
import { callsIn, encodeUsage, usageIn } from './usage.ts'

export function decodeAnswer(
  body: unknown,
  { idsAndClock }: DecodeOptions,
): ChatAnswer | { error: ChatError } {
  const isError = Array.isArray(body) || Boolean(member(body, 'error'))
  if (isError) return { error: decodeError({ status: 200, body }) }
  const answer = lenientFields(body)
  const candidates = answer.each('candidates')
  const failed = candidates.find(each => FAILED.has(member(each.value, 'finishReason')))
  if (failed !== undefined) return { error: failure(failed.value) }
  const blocked = blockedStop(answer.any('promptFeedback'))
  if (candidates.length === 0 && blocked === undefined) {
    return { error: chatError('server', 'The response of the provider has no candidates.') }
  }
  const newId = () => idsAndClock.newId('call_')
  const choices =
    candidates.length === 0 && blocked !== undefined
      ? [{ parts: [], stop: blocked }]
      : candidates.map(candidate => decodeCandidate(candidate, newId))
  return compact<ChatAnswer>({ ...headOf(answer), choices, usage: usageIn(body), toolCalls: callsIn(body) })
}

/** The members that an answer and each event of a stream have in common. */
export function headOf(answer: FieldReader): Omit<ChatAnswer, 'choices' | 'usage' | 'toolCalls'> {
  for (const name of ['candidates', 'usageMetadata', 'promptFeedback']) answer.any(name)
  const createdMs = Date.parse(answer.text('createTime') ?? '')
  return compact<Omit<ChatAnswer, 'choices' | 'usage'>>({
    id: answer.text('responseId') ?? '',
    model: answer.text('modelVersion') ?? '',
    createdS: Number.isNaN(createdMs) ? undefined : Math.floor(createdMs / 1000),
    extras: extrasOf(FORMAT, answer.rest()),
  })
}

export function failure(candidate: JsonObject): ChatError {
  const { finishReason, finishMessage } = candidate
  const message = typeof finishMessage === 'string' && finishMessage !== '' ? finishMessage : undefined
  const reason = String(finishReason)
  return chatError('server', message ?? `The model could not use its tools (${reason}).`, { code: reason })
}

function decodeCandidate(candidate: FieldReader, newId: () => string): Choice {
  const content = candidate.fields('content') ?? lenientFields({})
  const parts = content.each('parts').map(part => decodePart(part, newId))
  candidate.any('index')
  const logprobs = decodeLogprobs(candidate.any('logprobsResult'))
  const hasCalls = parts.some(part => part.type === 'toolCall')
  return compact<Choice>({
    parts: withCitations(parts, member(candidate.value, 'groundingMetadata')),
    stop: decodeStop(candidate, hasCalls),
    logprobs: logprobs.length === 0 ? undefined : logprobs,
  })
}

/** A citation belongs to the text of its part; without one, to the first text. */
function withCitations(parts: readonly Part[], metadata: unknown): readonly Part[] {
  if (!isObject(metadata)) return parts
  const first = parts.findIndex(part => part.type === 'text')
  if (first === -1) return parts
  const placed = (part: number) => (parts[part]?.type === 'text' ? part : first)
  const textOf = (part: number) => (parts[placed(part)] as { text: string }).text
  const grounded = decodeGrounding(metadata, textOf)
  return parts.map((part, at) => {
    const citations = grounded.filter(each => placed(each.part) === at).map(each => each.citation)
    return part.type === 'text' && citations.length > 0 ? { ...part, citations } : part
  })
}

// --- Writing ------------------------------------------------------------------------------------------------------

export function encodeAnswer(answer: ChatAnswer, options: AnswerOptions): JsonObject {
  const { choices, usage } = answer
  const feedback = feedbackIn(choices[0]?.stop)
  return {
    ...(feedback === undefined ? { candidates: choices.map(encodeChoice) } : { promptFeedback: feedback }),
    ...(usage !== undefined && { usageMetadata: encodeUsage(usage) }),
    ...encodeHead(answer, options),
  }
}

export const encodeHead = (
  { id, model, createdS, ...rest }: Omit<ChatAnswer, 'choices' | 'usage'>,
  { idsAndClock, request }: AnswerOptions,
): JsonObject => ({
  ...ownExtras(FORMAT, rest),
  modelVersion: modelOfAnswer(model, request),
  ...(createdS !== undefined && { createTime: new Date(createdS * 1000).toISOString() }),
  responseId: id === '' ? idsAndClock.newId('resp_') : id,
})

/** Why the prompt was blocked, if that is the entire answer. */
export const feedbackIn = (stop: Stop | undefined): unknown =>
  member(stop?.extras?.[FORMAT], 'promptFeedback')

function encodeChoice({ parts, stop, logprobs }: Choice, index: number): JsonObject {
  const encodedParts: JsonObject[] = []
  const cited = parts.flatMap(part => {
    const at = encodedParts.length
    encodedParts.push(...answerParts(part))
    return part.type === 'text' && part.citations !== undefined
      ? [{ part: at, text: part.text, citations: part.citations }]
      : []
  })
  const groundingMetadata = encodeGrounding(cited)
  return {
    content: { parts: encodedParts, role: 'model' },
    index,
    ...(logprobs !== undefined && { logprobsResult: encodeLogprobs(logprobs) }),
    ...(groundingMetadata !== undefined && { groundingMetadata }),
    ...encodeStop(stopOf(stop, parts.some(isRefusal))),
  }
}
