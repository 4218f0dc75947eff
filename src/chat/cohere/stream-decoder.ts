import { isObject, type JsonObject, member } from '../../domain/json-value.ts'
import { createAssembler } from '../hub/assembler.ts'
import type { StreamDecoder, StreamDecoderOptions } from '../hub/format.ts'
import type { StopReason } from '../hub/hub.ts'
import { createDecoder, createJsonScanner, type Emit, type JsonFrame } from '../hub/stream.ts'
import { failure } from './answer.ts'
import { argumentsText, decodeCall, decodeCitation, isOfText } from './content.ts'
import { decodeError } from './error.ts'
import { decodeStop, isFailed } from './stop.ts'
import { readCohereUsage } from './usage.ts'

/**
 * Blocks start empty, so parts open with their first delta. A citation may arrive after its block has ended, so a text is
 * closed only by the next part. Calls are numbered separately from blocks.
 */
export function createStreamDecoder({ idsAndClock }: StreamDecoderOptions): StreamDecoder {
  const calls = new Map<unknown, number>()
  let parts: ReturnType<typeof createAssembler> | undefined
  let stop: StopReason | undefined
  let isText = false

  return createDecoder<JsonFrame>(createJsonScanner(), {
    frame({ event, text, data }, emit) {
      if (text === '[DONE]') {
        if (stop !== undefined) emit({ type: 'end' })
        return
      }
      if (event === 'error' || member(data, 'type') === 'error' || isBareError(data)) {
        emit({ type: 'error', error: decodeError({ status: 200, body: data ?? text }) })
      } else if (isObject(data)) read(data, emit)
    },
    isComplete: () => stop !== undefined,
    finish(emit) {
      parts?.closeAll()
      emit({ type: 'finish', choice: 0, stop: { reason: stop ?? 'stop' } })
    },
  })

  function read({ type, index, id, delta }: JsonObject, emit: Emit): void {
    const message = member(delta, 'message')
    parts ??= createAssembler(0, emit)
    switch (type) {
      case 'message-start':
        emit({ type: 'start', id: typeof id === 'string' ? id : '', model: '' })
        break
      case 'content-start':
      case 'content-delta':
        appendContent(member(message, 'content'))
        break
      case 'tool-plan-delta':
        appendText('reasoning', member(message, 'tool_plan'))
        break
      case 'tool-call-start':
        isText = false
        calls.set(index, parts.open(decodeCall(member(message, 'tool_calls'), idsAndClock.newId)))
        break
      case 'tool-call-delta':
        addArguments(index, member(member(member(message, 'tool_calls'), 'function'), 'arguments'))
        break
      case 'tool-call-end':
        close(index)
        break
      case 'citation-start':
        cite(member(message, 'citations'))
        break
      case 'message-end':
        end(delta, emit)
        break
      default:
      // Ends of blocks, and unknown event types.
    }
  }

  function appendContent(content: unknown): void {
    appendText('reasoning', member(content, 'thinking'))
    appendText('text', member(content, 'text'))
  }

  function appendText(type: 'text' | 'reasoning', text: unknown): void {
    if (typeof text !== 'string' || text === '') return
    isText = type === 'text'
    parts?.append(type, text)
  }

  function addArguments(index: unknown, piece: unknown): void {
    const part = calls.get(index)
    const text = argumentsText(piece)
    if (part !== undefined && text !== '') parts?.add(part, { text })
  }

  function close(index: unknown): void {
    const part = calls.get(index)
    if (part !== undefined) parts?.close(part)
  }

  function cite(citation: unknown): void {
    if (isText && isObject(citation) && isOfText(citation)) {
      parts?.annotate('text', { citation: decodeCitation(citation) })
    }
  }

  function end(delta: unknown, emit: Emit): void {
    const reason = member(delta, 'finish_reason')
    const usage = readCohereUsage(member(delta, 'usage'))
    if (usage !== undefined) emit({ type: 'usage', usage })
    if (isFailed(reason)) {
      emit({ type: 'error', error: failure(reason, member(delta, 'error')) })
      return
    }
    stop = decodeStop(reason, parts?.hasToolCalls ?? false)
    emit({ type: 'end' })
  }
}

/** `{message}` without a type: an error in the middle of a stream. */
const isBareError = (data: unknown): boolean =>
  member(data, 'type') === undefined && typeof member(data, 'message') === 'string'
