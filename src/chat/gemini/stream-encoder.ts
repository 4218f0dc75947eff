import type { JsonObject } from '../../domain/json-value.ts'
import type { Usage } from '../../domain/usage.ts'
import type { Stage } from '../../wire/stage.ts'
import type { AnswerOptions } from '../hub/format.ts'
import type { ChatEvent, Citation, Delta, MediaPart, Part, Stop } from '../hub/hub.ts'
import { isRefusal, stopOf } from '../hub/refusal.ts'
import { createEncoder, onOneLine, sseEvent } from '../hub/stream.ts'
import { encodeHead, feedbackIn } from './answer.ts'
import { answerParts } from './content.ts'
import { errorBody } from './error.ts'
import { encodeGrounding } from './grounding.ts'
import { encodeLogprobs } from './logprobs.ts'
import { encodeStop } from './stop.ts'
import { encodeUsage } from './usage.ts'

/** `text` buffers content that must be encoded at once, or is cited at its end. */
type OpenPart = { content: Part; text: string; readonly citations: Citation[] }
type ChoiceState = {
  readonly parts: Map<number, OpenPart>
  stop: Stop | undefined
  isCited: boolean
  isRefused: boolean
}
type Start = Extract<ChatEvent, { type: 'start' }>

/** For clients that request server-sent events. */
export const createStreamEncoder = (options: AnswerOptions): Stage<ChatEvent, Buffer> =>
  createChunkEncoder(options, chunk => sseEvent(chunk))

/** For other clients: the same chunks as the entries of one JSON array. */
export function createListEncoder(options: AnswerOptions): Stage<ChatEvent, Buffer> {
  let hasStarted = false
  const encoder = createChunkEncoder(options, chunk => {
    const lead = hasStarted ? ',\r\n' : '['
    hasStarted = true
    return Buffer.from(lead + onOneLine(JSON.stringify(chunk)))
  })
  return {
    push(event) {
      const pieces = encoder.push(event)
      const isLast = event.type === 'end' || event.type === 'error'
      return isLast && pieces.length > 0 ? [...pieces, CLOSING] : pieces
    },
    end() {
      const pieces = encoder.end()
      return pieces.length > 0 ? [...pieces, CLOSING] : pieces
    },
  }
}

const CLOSING = Buffer.from(']')

/** Clients drop an answer from their history if one of its chunks has no parts. */
const NO_TEXT: readonly JsonObject[] = [{ text: '' }]

/** The stop of a choice that reported no reason. */
const STOPPED: Stop = { reason: 'stop' }

function createChunkEncoder(
  options: AnswerOptions,
  frame: (chunk: JsonObject) => Buffer,
): Stage<ChatEvent, Buffer> {
  const choices = new Map<number, ChoiceState>()
  let head: JsonObject | undefined
  let usage: Usage | undefined

  return createEncoder(event => {
    switch (event.type) {
      case 'start':
        begin(event)
        return []
      case 'open':
        return open(event.choice, event.part, event.content)
      case 'delta':
        return add(event.choice, event.part, event)
      case 'close':
        return close(event.choice, event.part)
      case 'logprobs':
        return [candidate(event.choice, [], { logprobsResult: encodeLogprobs(event.tokens) })]
      case 'finish':
        stateOf(event.choice).stop = event.stop
        return []
      case 'usage':
        usage = event.usage
        return []
      case 'error':
        return [frame(errorBody(event.error))]
      default:
        return finish()
    }
  })

  function begin(start: Omit<Start, 'type'> = { id: '', model: '' }): JsonObject {
    const { id, model, createdS, extras } = start
    head ??= encodeHead(
      { id, model, ...(createdS !== undefined && { createdS }), ...(extras !== undefined && { extras }) },
      options,
    )
    return head
  }

  function stateOf(index: number): ChoiceState {
    const existing = choices.get(index)
    if (existing !== undefined) return existing
    const state: ChoiceState = { parts: new Map(), stop: undefined, isCited: false, isRefused: false }
    choices.set(index, state)
    return state
  }

  function candidate(index: number, parts: readonly JsonObject[], rest: JsonObject = {}): Buffer {
    const content = { parts: parts.length === 0 ? NO_TEXT : parts, role: 'model' }
    return frame({ candidates: [{ content, index, ...rest }], ...begin() })
  }

  function open(choice: number, number: number, content: Part): readonly Buffer[] {
    const state = stateOf(choice)
    state.parts.set(number, { content, text: '', citations: [] })
    if (isRefusal(content)) state.isRefused = true
    const isGrowing = content.type !== 'media' && content.type !== 'vendor'
    const parts = isGrowing || isEmptySound(content) ? [] : answerParts(content)
    return parts.length === 0 ? [] : [candidate(choice, parts)]
  }

  function add(choice: number, number: number, delta: Delta): readonly Buffer[] {
    const part = stateOf(choice).parts.get(number)
    if (part === undefined) return []
    const { text = '', data, citation } = delta
    if (citation !== undefined) part.citations.push(citation)
    if (part.content.type === 'toolCall') part.text += text
    if (part.content.type === 'text') part.text += text
    const parts =
      data === undefined ? grownParts(part.content, delta) : soundOf(part.content as MediaPart, data)
    return parts.length === 0 ? [] : [candidate(choice, parts)]
  }

  function close(choice: number, number: number): readonly Buffer[] {
    const state = stateOf(choice)
    const part = state.parts.get(number)
    state.parts.delete(number)
    if (part === undefined) return []
    const { content, text, citations } = part
    if (content.type === 'toolCall') return [candidate(choice, answerParts({ ...content, arguments: text }))]
    if (content.type !== 'text' || citations.length === 0) return []
    const groundingMetadata = encodeGrounding([{ part: 0, text, citations }])
    if (groundingMetadata === undefined) return []
    state.isCited = true
    return [candidate(choice, [], { groundingMetadata })]
  }

  /** The stop reasons come last, with the usage: clients consider the answer complete when they see them. */
  function finish(): readonly Buffer[] {
    const first = choices.get(0)?.stop
    const feedback = feedbackIn(first)
    const usageMetadata = usage && encodeUsage(usage)
    const usageFields = usageMetadata === undefined ? {} : { usageMetadata }
    if (feedback !== undefined) return [frame({ promptFeedback: feedback, ...usageFields, ...begin() })]
    if (choices.size === 0) stateOf(0)
    const candidates = [...choices].map(([index, { stop = STOPPED, isCited, isRefused }]) => {
      const { groundingMetadata, ...ended } = encodeStop(stopOf(stop, isRefused))
      // Sources that were cited with their text are not repeated.
      const grounded = groundingMetadata === undefined || isCited ? {} : { groundingMetadata }
      return { content: { parts: NO_TEXT, role: 'model' }, ...ended, ...grounded, index }
    })
    return [frame({ candidates, ...usageFields, ...begin() })]
  }
}

const isEmptySound = (content: Part): boolean =>
  content.type === 'media' &&
  content.kind === 'audio' &&
  'data' in content.source &&
  content.source.data === ''

const soundOf = (content: MediaPart, data: string): readonly JsonObject[] =>
  answerParts({ ...content, source: { data } })

/** Encodes a delta of a text or reasoning as a separate part. */
function grownParts(content: Part, { text = '', signature, encrypted }: Delta): readonly JsonObject[] {
  if (content.type !== 'text' && content.type !== 'refusal' && content.type !== 'reasoning') return []
  if (text === '' && signature === undefined && encrypted === undefined) return []
  return answerParts({
    ...content,
    text,
    ...(signature !== undefined && { signature }),
    ...(encrypted !== undefined && { encrypted }),
  } as Part)
}
