import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { usageIn } from '../../../metering/openai-usage.ts'
import { type Assembler, createAssembler } from '../../hub/assembler.ts'
import { chatError } from '../../hub/error.ts'
import { compact, extrasOf } from '../../hub/fields.ts'
import type { StreamDecoder, StreamDecoderOptions } from '../../hub/format.ts'
import type { ChatEvent, Citation, MediaPart, ToolCallPart } from '../../hub/hub.ts'
import { signatureOfText } from '../../hub/signature.ts'
import { createDecoder, createJsonScanner, type Emit, type JsonFrame } from '../../hub/stream.ts'
import { decodeImages } from './answer.ts'
import {
  argumentsText,
  decodeAnnotation,
  decodeCallSignature,
  decodeDetail,
  FORMAT,
  thinkingText,
  withListedMark,
} from './content.ts'
import { errorInside } from './error.ts'
import { decodeLogprobs } from './logprobs.ts'
import { hasSources, sourcesIn } from './sources.ts'
import { decodeStop, FAILED } from './stop.ts'

type Call = { readonly part: number; readonly id: string }
type ChoiceState = {
  readonly parts: Assembler
  /** URLs of pages that were cited. */
  readonly cited: Set<string>
  readonly calls: Map<number, Call>
  lastCall: Call | undefined
  audio: number | undefined
  detail: number | undefined
  isFinished: boolean
}

export function createStreamDecoder(options: StreamDecoderOptions): StreamDecoder {
  const { idsAndClock, usage, choices: choiceCount = 1 } = options
  const choices = new Map<number, ChoiceState>()
  const sources = new Map<string, Citation>()
  let isStarted = false

  return createDecoder<JsonFrame>(createJsonScanner(), {
    frame({ event, text, data }, emit) {
      if (text === '[DONE]') {
        emit({ type: 'end' })
        return
      }
      const isError = event === 'error' || Boolean(member(data, 'error'))
      if (isObject(data)) readChunk(data, emit)
      if (isError) emit({ type: 'error', error: errorInside(data ?? text) })
    },
    // Several hosts omit `[DONE]`; the answer is complete when each choice has finished.
    isComplete: () => choices.size >= choiceCount && [...choices.values()].every(choice => choice.isFinished),
    finish(emit) {
      for (const [index, choice] of choices) {
        choice.parts.closeAll()
        if (choice.isFinished) continue
        emit({
          type: 'finish',
          choice: index,
          stop: { reason: decodeStop('stop', choice.parts.hasToolCalls) },
        })
      }
    },
  })

  function readChunk(chunk: JsonObject, emit: Emit): void {
    const list = Array.isArray(chunk.choices) ? chunk.choices.filter(isObject) : []
    if (hasSources(chunk)) gatherSources(chunk)
    // Azure starts with a chunk that has neither id nor model.
    if (!isStarted && (list.length > 0 || chunk.id)) start(chunk, emit)
    for (const choice of list) readChoice(choice, emit)
    if (list.length === 0 && sources.size > 0) citeAfterwards()
    const reportedUsage = usageIn(chunk, usage)
    if (reportedUsage !== undefined) emit({ type: 'usage', usage: reportedUsage })
  }

  function start(chunk: JsonObject, emit: Emit): void {
    isStarted = true
    const {
      id,
      object: _,
      created,
      model,
      choices: __,
      usage: ___,
      ...rest
    } = chunk as Record<string, unknown>
    emit(
      compact<ChatEvent & { type: 'start' }>({
        type: 'start',
        id: typeof id === 'string' ? id : '',
        model: typeof model === 'string' ? model : '',
        createdS: typeof created === 'number' ? created : undefined,
        extras: Object.keys(rest).length === 0 ? undefined : extrasOf(FORMAT, rest),
      }),
    )
  }

  /** Hosts send sources with every chunk or with the last. Those of the first chunk become extras of the answer. */
  function gatherSources(chunk: JsonObject): void {
    for (const source of sourcesIn(chunk)) {
      const { url = '' } = source
      if (!sources.has(url)) sources.set(url, isStarted ? source : withListedMark(source))
    }
  }

  /** The text that relies on a page is not reported, so the page is cited for the entire text, at its end. */
  function cite({ parts, cited }: ChoiceState): void {
    for (const [url, citation] of sources) {
      if (cited.has(url)) continue
      cited.add(url)
      parts.annotate('text', { citation })
    }
  }

  /** Pages that are named after the choices have finished are cited by an empty text part. */
  function citeAfterwards(): void {
    for (const state of choices.values()) {
      if (!state.isFinished || state.parts.hasToolCalls) continue
      cite(state)
      state.parts.closeAll()
    }
  }

  function stateOf(index: number, emit: Emit): ChoiceState {
    const existing = choices.get(index)
    if (existing !== undefined) return existing
    const state: ChoiceState = {
      parts: createAssembler(index, emit),
      cited: new Set(),
      calls: new Map(),
      lastCall: undefined,
      audio: undefined,
      detail: undefined,
      isFinished: false,
    }
    choices.set(index, state)
    return state
  }

  function readChoice(choice: JsonObject, emit: Emit): void {
    const index = typeof choice.index === 'number' ? choice.index : 0
    const state = stateOf(index, emit)
    // A `message` beside the delta repeats the entire content; without a delta it is the content.
    const delta = isObject(choice.delta) ? choice.delta : choice.message
    if (isObject(delta)) readDelta(delta, state)
    const tokens = decodeLogprobs(choice.logprobs)
    if (tokens.length > 0) emit({ type: 'logprobs', choice: index, tokens })
    const { finish_reason } = choice
    if (typeof finish_reason !== 'string' || finish_reason === '' || state.isFinished) return
    if (FAILED.has(finish_reason)) {
      emit({ type: 'error', error: chatError('server', 'The provider could not finish the response.') })
      return
    }
    state.isFinished = true
    if (state.parts.isText) cite(state)
    state.parts.closeAll()
    emit({
      type: 'finish',
      choice: index,
      stop: { reason: decodeStop(finish_reason, state.parts.hasToolCalls) },
    })
  }

  function readDelta(delta: JsonObject, state: ChoiceState): void {
    const { parts } = state
    readReasoning(delta, state)
    const { content, refusal, annotations, images, audio, tool_calls } = delta
    if (typeof content === 'string') parts.append('text', content)
    else if (Array.isArray(content)) for (const part of content) readPart(part, parts)
    if (typeof refusal === 'string') parts.append('refusal', refusal)
    if (Array.isArray(annotations)) {
      for (const citation of annotations.flatMap(each => decodeAnnotation(each) ?? [])) {
        if (citation.url !== undefined) state.cited.add(citation.url)
        parts.annotate('text', { citation })
      }
    }
    if (Array.isArray(images)) for (const image of decodeImages(images)) parts.addComplete(image)
    if (isObject(audio)) readAudio(audio, state)
    if (Array.isArray(tool_calls)) for (const call of tool_calls.filter(isObject)) readCall(call, state)
  }

  function readCall(call: JsonObject, state: ChoiceState): void {
    const existing = knownCall(call, state)
    const described = isObject(call.custom) ? call.custom : call.function
    const piece = member(described, isObject(call.custom) ? 'input' : 'arguments')
    if (existing !== undefined) {
      const text = typeof piece === 'string' ? piece : piece ? JSON.stringify(piece) : ''
      if (text !== '') state.parts.add(existing.part, { text })
      return
    }
    // The current text ends here.
    if (state.parts.isText) cite(state)
    const name = member(described, 'name')
    const id = typeof call.id === 'string' && call.id !== '' ? call.id : idsAndClock.newId('call_')
    const part = state.parts.open(
      compact<ToolCallPart>({
        type: 'toolCall',
        id,
        name: typeof name === 'string' ? name : '',
        arguments: piece === undefined || piece === null || piece === '' ? '' : argumentsText(piece),
        isCustom: isObject(call.custom) ? true : undefined,
        signature: decodeCallSignature(call.extra_content),
      }),
    )
    state.lastCall = { part, id }
    if (typeof call.index === 'number') state.calls.set(call.index, state.lastCall)
  }

  function readAudio(audio: JsonObject, state: ChoiceState): void {
    const { data, transcript, ...rest } = audio as Record<string, unknown>
    if (state.audio === undefined) {
      const extras = Object.keys(rest).length === 0 ? undefined : extrasOf(FORMAT, rest)
      state.audio = state.parts.open(
        compact<MediaPart>({ type: 'media', kind: 'audio', source: { data: '' }, extras }),
      )
    }
    if (typeof data === 'string') state.parts.add(state.audio, { data })
    if (typeof transcript === 'string') state.parts.add(state.audio, { text: transcript })
  }
}

/**
 * Finds the call that a piece continues, by its index. Some hosts give all calls the same index: then a new id starts a
 * new call. Later pieces may repeat an empty id. Without an index, a piece without an id continues the last call.
 */
function knownCall(call: JsonObject, { calls, lastCall }: ChoiceState): Call | undefined {
  const { id, index } = call
  const hasNewId = (candidate: Call | undefined) =>
    typeof id === 'string' && id !== '' && candidate?.id !== id
  const existing = typeof index === 'number' ? calls.get(index) : lastCall
  if (existing === undefined || hasNewId(existing)) return undefined
  // Complete calls without index and id arrive one after the other, each with its name.
  const isAnother = typeof index !== 'number' && !id && Boolean(member(call.function, 'name'))
  return isAnother ? undefined : existing
}

function readPart(part: unknown, parts: Assembler): void {
  const text = member(part, 'text')
  if (typeof text === 'string') parts.append('text', text)
  else if (member(part, 'type') === 'thinking')
    parts.append('reasoning', thinkingText(member(part, 'thinking')))
}

/** `reasoning_details` repeats the text of the other field; if it has text, only the details are read. */
function readReasoning(delta: JsonObject, state: ChoiceState): void {
  const { parts } = state
  const { reasoning_content, reasoning, reasoning_details } = delta
  const details = Array.isArray(reasoning_details) ? reasoning_details.filter(isObject) : []
  const plain = typeof reasoning_content === 'string' ? reasoning_content : reasoning
  const hasText = details.some(detail => detail.text || detail.summary)
  if (typeof plain === 'string' && !hasText) parts.append('reasoning', plain)
  for (const detail of details) {
    const thought = decodeDetail(detail)
    const ofText = signatureOfText(thought)
    if (ofText !== undefined) {
      parts.annotate('text', { signature: ofText })
      continue
    }
    const { text, signature, encrypted } = thought
    // A signature may arrive with the complete reasoning text, which earlier pieces already contained.
    const isRepeated = (signature ?? encrypted) !== undefined && text === parts.reasoningText()
    const at = typeof detail.index === 'number' ? detail.index : undefined
    if (at !== state.detail && state.detail !== undefined && !isRepeated) parts.closeAll()
    state.detail = at
    if (!isRepeated) parts.append('reasoning', text)
    if (signature !== undefined) parts.annotate('reasoning', { signature })
    if (encrypted !== undefined) parts.annotate('reasoning', { encrypted })
  }
}
