import type { JsonObject } from '../../../domain/json-value.ts'
import { EMPTY, type Usage } from '../../../domain/usage.ts'
import type { Stage } from '../../../wire/stage.ts'
import { ownExtras } from '../../hub/fields.ts'
import type { AnswerOptions } from '../../hub/format.ts'
import type { ChatEvent, Delta, Extras, Part, Signature, Stop } from '../../hub/hub.ts'
import { isRefusal, stopOf } from '../../hub/refusal.ts'
import {
  packCallSignature,
  packReasoningSignature,
  packSignature,
  textSignatureThought,
} from '../../hub/signature.ts'
import { createEncoder, sseEvent } from '../../hub/stream.ts'
import { type ArgumentsWriter, createArgumentsWriter } from '../../hub/tools/arguments.ts'
import { messageId, modelForClient } from './answer.ts'
import { answerBlocks, encodeCall, encodeCitation, FORMAT } from './content.ts'
import { errorBody } from './error.ts'
import { encodeStop } from './stop.ts'
import { encodeUsage } from './usage.ts'

/** `index` is assigned with the first block that is written: reasoning may turn out to be empty or redacted. */
type OpenPart = {
  readonly content: Part
  index: number | undefined
  readonly input?: ArgumentsWriter
  /** The signature of a text, written after it. */
  signature?: Signature
}

type Start = { readonly id: string; readonly model: string; readonly extras?: Extras }

const eventOf = (type: string, data: JsonObject = {}): Buffer => sseEvent({ type, ...data }, type)

const delta = (index: number, change: JsonObject): Buffer =>
  eventOf('content_block_delta', { index, delta: change })

/** An answer in this format has one choice; further choices are never requested. */
export function createStreamEncoder({ idsAndClock, request }: AnswerOptions): Stage<ChatEvent, Buffer> {
  const parts = new Map<number, OpenPart>()
  let isStarted = false
  let nextIndex = 0
  let stop: Stop = { reason: 'stop' }
  let isRefused = false
  let usage: Usage = EMPTY

  return createEncoder(event => {
    if ('choice' in event && event.choice !== 0) return []
    switch (event.type) {
      case 'start':
        return started(event)
      case 'open':
        return [...started(), ...open(event.part, event.content)]
      case 'delta':
        return add(event.part, event)
      case 'close':
        return close(event.part)
      case 'finish':
        stop = event.stop
        return []
      case 'usage':
        usage = event.usage
        return []
      case 'error':
        return [sseEvent(errorBody(event.error), 'error')]
      case 'end':
        return [
          ...started(),
          ...[...parts.keys()].flatMap(close),
          eventOf('message_delta', { delta: encodeStop(stopOf(stop, isRefused)), usage: encodeUsage(usage) }),
          eventOf('message_stop'),
        ]
      default:
        return []
    }
  })

  function started(start: Start = { id: '', model: '' }): readonly Buffer[] {
    if (isStarted) return []
    isStarted = true
    const message = {
      ...ownExtras(FORMAT, start),
      id: messageId(start.id, idsAndClock.newId),
      type: 'message',
      role: 'assistant',
      model: modelForClient(start.model, request),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: encodeUsage(usage),
    }
    return [eventOf('message_start', { message })]
  }

  function startBlock(content_block: JsonObject): { readonly index: number; readonly bytes: Buffer } {
    const index = nextIndex++
    return { index, bytes: eventOf('content_block_start', { index, content_block }) }
  }

  function completeBlock(block: JsonObject): readonly Buffer[] {
    const { index, bytes } = startBlock(block)
    return [bytes, eventOf('content_block_stop', { index })]
  }

  function open(number: number, content: Part): readonly Buffer[] {
    const isCall = content.type === 'toolCall'
    const input = isCall ? { input: createArgumentsWriter(content.isCustom === true) } : {}
    const part: OpenPart = { content, index: undefined, ...input }
    parts.set(number, part)
    if (isRefusal(content)) isRefused = true
    switch (content.type) {
      case 'text':
      case 'refusal':
        return begin(part, { type: 'text', text: '' })
      case 'toolCall':
        return [
          ...signatureBlock(packCallSignature(FORMAT, content)),
          ...begin(part, { ...encodeCall(content, () => {}), input: {} }),
        ]
      case 'vendor':
        return content.format === FORMAT ? completeBlock(content.value) : []
      case 'media': {
        const [block] = answerBlocks(content)
        if (content.kind === 'audio') return begin(part, { type: 'text', text: '' })
        return [
          ...begin(part, { type: 'text', text: '' }),
          delta(part.index ?? 0, { type: 'text_delta', text: block?.text }),
        ]
      }
      default:
        return []
    }
  }

  function begin(part: OpenPart, block: JsonObject): readonly Buffer[] {
    if (part.index !== undefined) return []
    const { index, bytes } = startBlock(block)
    part.index = index
    return [bytes]
  }

  function signatureBlock(signature: string | undefined): readonly Buffer[] {
    if (signature === undefined) return []
    const { index, bytes } = startBlock({ type: 'thinking', thinking: '', signature: '' })
    return [
      bytes,
      delta(index, { type: 'signature_delta', signature }),
      eventOf('content_block_stop', { index }),
    ]
  }

  function add(number: number, change: Delta): readonly Buffer[] {
    const part = parts.get(number)
    if (part === undefined) return []
    const { text, citation, signature } = change
    if (part.content.type === 'reasoning') return think(part, change)
    if (part.index === undefined) return []
    if (signature !== undefined) part.signature = signature
    const { index } = part
    if (part.input !== undefined) {
      return text === undefined ? [] : inputDelta(index, part.input.push(text))
    }
    return [
      ...(text === undefined ? [] : [delta(index, { type: 'text_delta', text })]),
      ...(citation === undefined
        ? []
        : [delta(index, { type: 'citations_delta', citation: encodeCitation(citation) })]),
    ]
  }

  function think(part: OpenPart, { text, signature, encrypted }: Delta): readonly Buffer[] {
    const pieces: Buffer[] = []
    if (text !== undefined) {
      pieces.push(...begin(part, { type: 'thinking', thinking: '', signature: '' }))
      pieces.push(delta(part.index ?? 0, { type: 'thinking_delta', thinking: text }))
    }
    if (encrypted !== undefined && signature === undefined && part.index === undefined) {
      return [
        ...pieces,
        ...completeBlock({ type: 'redacted_thinking', data: packSignature(FORMAT, encrypted) }),
      ]
    }
    const packed = packReasoningSignature(FORMAT, {
      type: 'reasoning',
      text: '',
      ...(signature && { signature }),
      ...(encrypted && { encrypted }),
    })
    if (packed === undefined) return pieces
    pieces.push(...begin(part, { type: 'thinking', thinking: '', signature: '' }))
    pieces.push(delta(part.index ?? 0, { type: 'signature_delta', signature: packed }))
    return pieces
  }

  function close(number: number): readonly Buffer[] {
    const part = parts.get(number)
    parts.delete(number)
    if (part?.index === undefined) return []
    const { index, input, signature } = part
    const rest = input === undefined ? [] : inputDelta(index, input.end())
    const packed = signature && packReasoningSignature(FORMAT, textSignatureThought(signature))
    return [...rest, eventOf('content_block_stop', { index }), ...signatureBlock(packed)]
  }
}

const inputDelta = (index: number, partial_json: string): readonly Buffer[] =>
  partial_json === '' ? [] : [delta(index, { type: 'input_json_delta', partial_json })]
