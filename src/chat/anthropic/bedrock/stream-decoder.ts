import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { type Assembler, createAssembler } from '../../hub/assembler.ts'
import type { StreamDecoder, StreamDecoderOptions } from '../../hub/format.ts'
import type { Citation, Delta, StopReason } from '../../hub/hub.ts'
import { createDecoder, type Emit } from '../../hub/stream.ts'
import { malformed } from './answer.ts'
import { decodeCitation, signed } from './content.ts'
import { errorOf } from './error.ts'
import { createFrameScanner, type EventFrame } from './event-stream.ts'
import { decodeStop, isFailed } from './stop.ts'
import { readBedrockUsage } from './usage.ts'

/** Only calls have a start event: texts and reasoning open with their first delta. */
export function createStreamDecoder({ idsAndClock }: StreamDecoderOptions): StreamDecoder {
  const blocks = new Map<unknown, number>()
  const waiting = new Map<unknown, Citation[]>()
  let parts: Assembler | undefined
  let stop: StopReason | undefined

  return createDecoder<EventFrame>(createFrameScanner(), {
    frame({ kind, name, data }, emit) {
      if (kind === 'event') {
        if (isObject(data)) read(name, data, emit)
        return
      }
      const reportedMessage = member(data, 'message') ?? member(data, 'originalMessage') ?? data
      const message =
        typeof reportedMessage === 'string' && reportedMessage !== ''
          ? reportedMessage
          : `The provider’s stream ended with ${name}.`
      const status = member(data, 'originalStatusCode')
      const error = errorOf(name, message, { status: typeof status === 'number' ? status : 0 })
      emit({ type: 'error', error })
    },
    // The usage follows the end of the message: without it the answer is still complete.
    isComplete: () => stop !== undefined,
    finish(emit) {
      parts?.closeAll()
      emit({ type: 'finish', choice: 0, stop: { reason: stop ?? 'stop' } })
    },
  })

  function read(name: string, data: JsonObject, emit: Emit): void {
    switch (name) {
      case 'messageStart':
        started(emit)
        break
      case 'contentBlockStart':
        open(data.contentBlockIndex, member(data.start, 'toolUse'), emit)
        break
      case 'contentBlockDelta':
        if (isObject(data.delta)) add(data.contentBlockIndex, data.delta, emit)
        break
      case 'contentBlockStop':
        close(data.contentBlockIndex)
        break
      case 'messageStop':
        if (isFailed(data.stopReason)) emit({ type: 'error', error: malformed(data.stopReason) })
        else stop = decodeStop(data.stopReason, parts?.hasToolCalls ?? false)
        break
      case 'metadata': {
        const usage = readBedrockUsage(data.usage)
        if (usage !== undefined) emit({ type: 'usage', usage })
        if (stop !== undefined) emit({ type: 'end' })
        break
      }
      default:
      // Unknown event types.
    }
  }

  function started(emit: Emit): Assembler {
    if (parts === undefined) {
      parts = createAssembler(0, emit)
      emit({ type: 'start', id: '', model: '' })
    }
    return parts
  }

  function open(index: unknown, call: unknown, emit: Emit): void {
    if (!isObject(call)) return
    const { toolUseId, name } = call
    const id = typeof toolUseId === 'string' && toolUseId !== '' ? toolUseId : idsAndClock.newId('call_')
    const text = typeof name === 'string' ? name : ''
    blocks.set(index, started(emit).open({ type: 'toolCall', id, name: text, arguments: '' }))
  }

  function add(index: unknown, { text, toolUse, reasoningContent, citation }: JsonObject, emit: Emit): void {
    if (typeof text === 'string' && text !== '') grow(index, 'text', { text }, emit)
    const input = member(toolUse, 'input')
    const call = blocks.get(index)
    if (typeof input === 'string' && input !== '' && call !== undefined) parts?.add(call, { text: input })
    if (isObject(reasoningContent)) appendReasoning(index, reasoningContent, emit)
    if (isObject(citation)) cite(index, decodeCitation(citation))
  }

  function appendReasoning(index: unknown, reasoning: JsonObject, emit: Emit): void {
    const { text, signature, redactedContent } = reasoning
    if (typeof text === 'string' && text !== '') grow(index, 'reasoning', { text }, emit)
    if (typeof signature === 'string' && signature !== '') {
      grow(index, 'reasoning', { signature: signed(signature) }, emit)
    }
    if (typeof redactedContent === 'string') {
      grow(index, 'reasoning', { encrypted: signed(redactedContent) }, emit)
    }
  }

  /** A citation may arrive before the text that it supports. */
  function cite(index: unknown, citation: Citation): void {
    const part = blocks.get(index)
    if (part !== undefined) parts?.add(part, { citation })
    else waiting.set(index, [...(waiting.get(index) ?? []), citation])
  }

  function grow(index: unknown, type: 'text' | 'reasoning', delta: Delta, emit: Emit): void {
    const assembler = started(emit)
    const existing = blocks.get(index)
    const part = existing ?? assembler.open({ type, text: '' })
    blocks.set(index, part)
    if (existing === undefined && type === 'text') {
      for (const citation of waiting.get(index) ?? []) assembler.add(part, { citation })
    }
    assembler.add(part, delta)
  }

  function close(index: unknown): void {
    const part = blocks.get(index)
    blocks.delete(index)
    waiting.delete(index)
    if (part !== undefined) parts?.close(part)
  }
}
