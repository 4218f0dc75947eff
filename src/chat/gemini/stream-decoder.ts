import { isObject, type JsonObject, member } from '../../domain/json-value.ts'
import { type Assembler, createAssembler } from '../hub/assembler.ts'
import { type FieldReader, lenientFields } from '../hub/fields.ts'
import type { StreamDecoder, StreamDecoderOptions } from '../hub/format.ts'
import type { Delta, Stop, ToolCallPart } from '../hub/hub.ts'
import { createDecoder, createJsonScanner, type Emit, type JsonFrame } from '../hub/stream.ts'
import { failure, headOf } from './answer.ts'
import { decodePart, FORMAT } from './content.ts'
import { decodeError } from './error.ts'
import { decodeGrounding } from './grounding.ts'
import { decodeLogprobs } from './logprobs.ts'
import { createPartialArgs, type PartialArgs } from './partial-args.ts'
import { blockedStop, decodeStop, FAILED } from './stop.ts'
import { type GeminiCalls, tokensIn, toolCallsIn } from './usage.ts'

/** The current text part. Its text is buffered, because citations refer to it by byte offset and arrive at the end. */
type OpenText = { readonly part: number; readonly chunks: string[] }

type ChoiceState = {
  readonly parts: Assembler
  text: OpenText | undefined
  /** A call whose arguments arrive in pieces. */
  call: { readonly part: number; readonly args: PartialArgs } | undefined
  stop: Stop | undefined
}

/** Every event is a piece of an answer, with the total usage so far. There is no terminator. */
export function createStreamDecoder(options: StreamDecoderOptions): StreamDecoder {
  const { idsAndClock, choices: choiceCount = 1 } = options
  const choices = new Map<number, ChoiceState>()
  let isStarted = false
  let calls: GeminiCalls = { searches: 0, fileSearches: 0, codeInterpreterCalls: 0 }

  return createDecoder<JsonFrame>(createJsonScanner(), {
    isUnterminated: true,
    frame({ event, data }, emit) {
      if (isObject(data)) readChunk(data, emit)
      if (event !== 'error' && !hasError(data)) return
      emit({ type: 'error', error: decodeError({ status: 200, body: data }) })
    },
    isComplete: () =>
      choices.size > 0 &&
      [...choices.values()].every(choice => choice.stop !== undefined) &&
      (choices.size >= choiceCount || isBlocked()),
    finish(emit) {
      for (const [index, choice] of choices) {
        endCall(choice)
        choice.parts.closeAll()
        emit({ type: 'finish', choice: index, stop: choice.stop ?? { reason: 'stop' } })
      }
    },
  })

  /** A blocked prompt has one answer, however many were requested. */
  function isBlocked(): boolean {
    return member(choices.get(0)?.stop?.extras?.[FORMAT], 'promptFeedback') !== undefined
  }

  function readChunk(chunk: JsonObject, emit: Emit): void {
    const candidates = objectsIn(chunk.candidates)
    const blocked = blockedStop(chunk.promptFeedback)
    if (!isStarted && (candidates.length > 0 || blocked !== undefined || chunk.responseId)) {
      isStarted = true
      emit({ type: 'start', ...headOf(lenientFields(chunk)) })
    }
    for (const candidate of candidates) readCandidate(candidate, emit)
    if (candidates.length === 0 && blocked !== undefined) stateOf(0, emit).stop ??= blocked
    countCalls(chunk, emit)
    const tokens = tokensIn(chunk)
    if (tokens !== undefined) emit({ type: 'usage', usage: { ...tokens, ...calls } })
  }

  /** The event that names the sources reports all searches, each event its own code; every event reports usage. */
  function countCalls(chunk: JsonObject, emit: Emit): void {
    const { searches, fileSearches, codeInterpreterCalls } = toolCallsIn(chunk)
    if (searches <= calls.searches && fileSearches <= calls.fileSearches && codeInterpreterCalls === 0) return
    calls = {
      searches: Math.max(calls.searches, searches),
      fileSearches: Math.max(calls.fileSearches, fileSearches),
      codeInterpreterCalls: calls.codeInterpreterCalls + codeInterpreterCalls,
    }
    emit({ type: 'providerTools', calls })
  }

  function stateOf(index: number, emit: Emit): ChoiceState {
    const existing = choices.get(index)
    if (existing !== undefined) return existing
    const state: ChoiceState = {
      parts: createAssembler(index, emit),
      text: undefined,
      call: undefined,
      stop: undefined,
    }
    choices.set(index, state)
    return state
  }

  function readCandidate(candidate: JsonObject, emit: Emit): void {
    const index = typeof candidate.index === 'number' ? candidate.index : 0
    const state = stateOf(index, emit)
    for (const part of objectsIn(member(candidate.content, 'parts'))) readPart(part, state)
    if (isObject(candidate.logprobsResult)) {
      const tokens = decodeLogprobs(candidate.logprobsResult)
      if (tokens.length > 0) emit({ type: 'logprobs', choice: index, tokens })
    }
    cite(candidate.groundingMetadata, state)
    const { finishReason } = candidate
    if (typeof finishReason !== 'string' || finishReason === '') return
    if (FAILED.has(finishReason)) emit({ type: 'error', error: failure(candidate) })
    state.stop = decodeStop(readAs(candidate), state.parts.hasToolCalls)
  }

  /** Nearly all parts contain a short text and nothing else. */
  function readPart(part: JsonObject, state: ChoiceState): void {
    if (isBareText(part)) {
      endCall(state)
      appendText(state, part.text, NO_SIGNATURES)
      return
    }
    const called = part.functionCall
    if (isObject(called)) readCall(lenientFields(part), called, state)
    else readContentPart(lenientFields(part), state)
  }

  function readContentPart(part: FieldReader, state: ChoiceState): void {
    const decoded = decodePart(part, newId)
    if (decoded.type === 'text' || decoded.type === 'reasoning') {
      const { text, signature } = decoded
      const encrypted = decoded.type === 'reasoning' ? decoded.encrypted : undefined
      const signatures: Delta = { ...(signature && { signature }), ...(encrypted && { encrypted }) }
      endCall(state)
      if (decoded.type === 'text') appendText(state, text, signatures)
      else appendReasoning(state, text, signatures)
      return
    }
    endCall(state)
    state.text = undefined
    state.parts.addComplete(decoded)
  }

  function newId(): string {
    return idsAndClock.newId('call_')
  }

  function readCall(part: FieldReader, called: JsonObject, state: ChoiceState): void {
    state.text = undefined
    // The continuation of a call has no name, and its last piece is empty.
    if (typeof called.name === 'string' && called.name !== '') {
      endCall(state)
      const decoded = decodePart(part, newId) as ToolCallPart
      if (called.willContinue === true) {
        const at = state.parts.open({ ...decoded, arguments: '' })
        state.call = { part: at, args: createPartialArgs() }
      } else state.parts.addComplete(decoded)
    }
    state.call?.args.add(called.partialArgs)
    if (called.willContinue !== true) endCall(state)
  }
}

/** The vendor sends some errors as an entry of a list. */
const hasError = (data: unknown): boolean => [data].flat().some(each => Boolean(member(each, 'error')))

const NO_SIGNATURES: Delta = {}

const NOTHING: readonly JsonObject[] = []

const objectsIn = (list: unknown): readonly JsonObject[] =>
  Array.isArray(list) ? list.filter(isObject) : NOTHING

const isBareText = (part: JsonObject): part is { readonly text: string } =>
  typeof part.text === 'string' && Object.keys(part).length === 1

/** A candidate without the members that have been read already, so that only its stop reason is left. */
function readAs(candidate: JsonObject): FieldReader {
  const fields = lenientFields(candidate)
  for (const name of ['index', 'content', 'logprobsResult']) fields.any(name)
  return fields
}

function endCall(state: ChoiceState): void {
  const { call } = state
  if (call === undefined) return
  state.call = undefined
  state.parts.add(call.part, { text: call.args.text() })
  state.parts.close(call.part)
}

/** A signature arrives with a text, or after it with an empty text. */
function appendText(state: ChoiceState, text: string, signatures: Delta): void {
  const isSigned = signatures !== NO_SIGNATURES && Object.keys(signatures).length > 0
  if (text === '' && !isSigned) return
  state.text ??= { part: state.parts.open({ type: 'text', text: '' }), chunks: [] }
  if (text !== '') state.text.chunks.push(text)
  state.parts.add(state.text.part, isSigned ? { ...(text !== '' && { text }), ...signatures } : { text })
}

function appendReasoning(state: ChoiceState, text: string, signatures: Delta): void {
  if (text === '' && Object.keys(signatures).length === 0) return
  state.text = undefined
  state.parts.append('reasoning', text)
  if (Object.keys(signatures).length > 0) state.parts.annotate('reasoning', signatures)
}

function cite(metadata: unknown, { text, parts }: ChoiceState): void {
  if (text === undefined || !isObject(metadata)) return
  const answerText = text.chunks.join('')
  for (const { citation } of decodeGrounding(metadata, () => answerText)) parts.add(text.part, { citation })
}
