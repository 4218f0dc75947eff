import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { type ToolCalls, type ToolCount, withToolCalls } from '../../../domain/usage.ts'
import { mostCalls, toolCallOf, withCall } from '../../../metering/tool-calls.ts'
import { type Assembler, createAssembler } from '../../hub/assembler.ts'
import { compact, lenientFields } from '../../hub/fields.ts'
import type { StreamDecoder, StreamDecoderOptions } from '../../hub/format.ts'
import type { ChatEvent, Part, ReasoningPart, Signature } from '../../hub/hub.ts'
import {
  callSignatureOf,
  isCallSignature,
  signatureOfText,
  unpackReasoningSignature,
} from '../../hub/signature.ts'
import { createDecoder, createJsonScanner, type Emit, type JsonFrame } from '../../hub/stream.ts'
import { errorInside } from '../chat-completions/error.ts'
import { decodeLogprobs } from '../chat-completions/logprobs.ts'
import { decodeStop, failureIn, partsOf } from './answer.ts'
import { decodeAnnotation, decodeItem, FORMAT } from './content.ts'
import { callsIn, readResponsesUsage } from './usage.ts'

/** An open part; `hasText` after its first delta. */
type OpenPart = { readonly part: number; hasText: boolean; hasLogprobs: boolean }

export function createStreamDecoder(options: StreamDecoderOptions): StreamDecoder {
  const { idsAndClock, usage } = options
  // Items are identified by position: some servers change ids in the middle of a stream.
  const sentTexts = new Map<string, OpenPart>()
  let parts: Assembler | undefined
  let isStarted = false
  let hasParts = false
  let pending: Signature | undefined
  let calls: ToolCalls | undefined
  /** Image generations that are counted and have not ended. */
  const partialImages = new Set<string>()

  return createDecoder<JsonFrame>(createJsonScanner(), {
    frame({ event, data }, emit) {
      if (event === 'error' || member(data, 'type') === 'error') {
        emit({ type: 'error', error: errorInside(data) })
        return
      }
      if (isObject(data)) read(data, emit)
    },
    // The last event contains the complete answer; without it the answer is incomplete.
    isComplete: () => false,
  })

  function read(data: JsonObject, emit: Emit): void {
    const { type, response } = data
    switch (type) {
      case 'response.created':
      case 'response.in_progress':
      case 'response.queued':
        start(response, emit)
        break
      case 'response.output_item.added':
        openItem(data, emit)
        break
      case 'response.output_item.done':
        closeItem(data, emit)
        break
      case 'response.content_part.added':
        openContent(data, emit)
        break
      case 'response.output_text.delta':
        appendDelta(contentAt(data, 'text', emit), data, emit)
        break
      case 'response.refusal.delta':
        appendDelta(contentAt(data, 'refusal', emit), data, emit)
        break
      case 'response.output_text.done':
        complete(contentAt(data, 'text', emit), data, 'text', emit)
        break
      case 'response.refusal.done':
        complete(contentAt(data, 'refusal', emit), data, 'refusal', emit)
        break
      case 'response.output_text.annotation.added':
        if (isObject(data.annotation)) {
          const { part } = contentAt(data, 'text', emit)
          assembler(emit).add(part, { citation: decodeAnnotation(data.annotation) })
        }
        break
      case 'response.content_part.done':
        closeAt(contentKey(data), emit)
        break
      case 'response.reasoning_summary_part.added':
        thoughtAt(data, emit)
        break
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        appendDelta(thoughtAt(data, emit), data, emit)
        break
      case 'response.reasoning_summary_text.done':
      case 'response.reasoning_text.done':
        complete(thoughtAt(data, emit), data, 'text', emit)
        break
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        appendIfOpen(sentTexts.get(itemKey(data)), data, emit)
        break
      case 'response.function_call_arguments.done':
        completeAt(sentTexts.get(itemKey(data)), data, 'arguments', emit)
        break
      case 'response.custom_tool_call_input.done':
        completeAt(sentTexts.get(itemKey(data)), data, 'input', emit)
        break
      case 'response.completed':
      case 'response.incomplete':
        finish(isObject(response) ? response : {}, emit)
        break
      case 'response.failed':
      case 'response.cancelled': {
        const failure = isObject(response) ? failureIn(response) : undefined
        if (isObject(response)) emitUsage(response, emit)
        emit({ type: 'error', error: failure ?? errorInside(data) })
        break
      }
      case 'response.image_generation_call.partial_image':
        countPartialImage(data, emit)
        break
      default:
      // Progress of the vendor's own tools, and unknown event types.
    }
  }

  function start(response: unknown, emit: Emit): void {
    if (isStarted) return
    isStarted = true
    const fields = lenientFields(response)
    emit(
      compact<ChatEvent & { type: 'start' }>({
        type: 'start',
        id: fields.text('id') ?? '',
        model: fields.text('model') ?? '',
        createdS: fields.number('created_at'),
      }),
    )
  }

  function assembler(emit: Emit): Assembler {
    parts ??= createAssembler(0, emit)
    return parts
  }

  function open(key: string, part: Part, emit: Emit): OpenPart {
    hasParts = true
    const opened = { part: assembler(emit).open(part), hasText: false, hasLogprobs: false }
    sentTexts.set(key, opened)
    return opened
  }

  function closeAt(key: string, emit: Emit): void {
    const closed = sentTexts.get(key)
    sentTexts.delete(key)
    if (closed !== undefined) assembler(emit).close(closed.part)
  }

  function openItem(data: JsonObject, emit: Emit): void {
    const type = member(data.item, 'type')
    if (type !== 'function_call' && type !== 'custom_tool_call') return
    const [call] = decodeItem(lenientFields(data.item), idsAndClock.newId)
    if (call?.type !== 'toolCall') return
    const signature = pending
    pending = undefined
    open(itemKey(data), { ...call, arguments: '', ...(signature && { signature }) }, emit)
  }

  function openContent(data: JsonObject, emit: Emit): void {
    const type = member(data.part, 'type')
    if (type === 'output_text') contentAt(data, 'text', emit)
    if (type === 'refusal') contentAt(data, 'refusal', emit)
  }

  function contentAt(data: JsonObject, type: 'text' | 'refusal', emit: Emit): OpenPart {
    const key = contentKey(data)
    return sentTexts.get(key) ?? open(key, { type, text: '' }, emit)
  }

  /** The last reasoning part of an item stays open, because the signature comes with the end of the item. */
  function thoughtAt(data: JsonObject, emit: Emit): OpenPart {
    const key = `${itemKey(data)}.thought.${String(data.summary_index ?? data.content_index)}`
    const existing = sentTexts.get(key)
    if (existing !== undefined) return existing
    closeThoughts(data, emit)
    const id = typeof data.item_id === 'string' ? data.item_id : undefined
    return open(key, compact<ReasoningPart>({ type: 'reasoning', text: '', id }), emit)
  }

  function thoughtKeys(data: JsonObject): readonly string[] {
    const prefix = `${itemKey(data)}.thought.`
    return [...sentTexts.keys()].filter(key => key.startsWith(prefix))
  }

  function closeThoughts(data: JsonObject, emit: Emit): void {
    for (const key of thoughtKeys(data)) closeAt(key, emit)
  }

  function appendDelta(at: OpenPart, { delta, logprobs }: JsonObject, emit: Emit): void {
    if (typeof delta === 'string' && delta !== '') {
      at.hasText = true
      assembler(emit).add(at.part, { text: delta })
    }
    emitLogprobs(at, logprobs, emit)
  }

  function appendIfOpen(at: OpenPart | undefined, data: JsonObject, emit: Emit): void {
    if (at !== undefined) appendDelta(at, data, emit)
  }

  /** The closing event repeats the text; it is only used if no delta arrived before. */
  function complete(at: OpenPart, data: JsonObject, name: string, emit: Emit): void {
    const text = data[name]
    if (!at.hasText && typeof text === 'string' && text !== '') {
      at.hasText = true
      assembler(emit).add(at.part, { text })
    }
    if (!at.hasLogprobs) emitLogprobs(at, data.logprobs, emit)
  }

  function completeAt(at: OpenPart | undefined, data: JsonObject, name: string, emit: Emit): void {
    if (at !== undefined) complete(at, data, name, emit)
  }

  function emitLogprobs(at: OpenPart, logprobs: unknown, emit: Emit): void {
    const tokens = decodeLogprobs({ content: logprobs })
    if (tokens.length === 0) return
    at.hasLogprobs = true
    emit({ type: 'logprobs', choice: 0, tokens })
  }

  function count(call: ToolCount, emit: Emit): void {
    calls = withCall(calls, call)
    emit({ type: 'providerTools', calls })
  }

  /** The last partial image is nearly the image, so a client might disconnect before the call ends. */
  function countPartialImage(data: JsonObject, emit: Emit): void {
    const key = itemKey(data)
    if (partialImages.has(key)) return
    partialImages.add(key)
    count('imageGenerationCalls', emit)
  }

  function closeItem(data: JsonObject, emit: Emit): void {
    const { item } = data
    if (!isObject(item)) return
    const call = toolCallOf(item)
    if (call !== undefined && !partialImages.delete(itemKey(data))) count(call, emit)
    switch (item.type) {
      case 'message':
        for (const key of [...sentTexts.keys()]) if (key.startsWith(`${itemKey(data)}.`)) closeAt(key, emit)
        break
      case 'reasoning':
        attachSignature(data, item, emit)
        break
      case 'function_call':
      case 'custom_tool_call':
        if (!sentTexts.has(itemKey(data))) openItem(data, emit)
        completeAt(
          sentTexts.get(itemKey(data)),
          item,
          item.type === 'function_call' ? 'arguments' : 'input',
          emit,
        )
        closeAt(itemKey(data), emit)
        break
      default:
        for (const part of decodeItem(lenientFields(item), idsAndClock.newId)) {
          hasParts = true
          assembler(emit).addComplete(part)
        }
    }
  }

  function attachSignature(data: JsonObject, item: JsonObject, emit: Emit): void {
    const key = thoughtKeys(data).at(-1)
    const at = key === undefined ? undefined : sentTexts.get(key)
    const encryptedContent = item.encrypted_content
    if (typeof encryptedContent === 'string' && encryptedContent !== '') {
      const { signature, encrypted } = unpackReasoningSignature(FORMAT, encryptedContent, 'encrypted')
      const added = { ...(signature && { signature }), ...(encrypted && { encrypted }) }
      const ofText = signature && signatureOfText({ signature })
      if (signature !== undefined && isCallSignature(signature)) pending = callSignatureOf(signature)
      // The message of the text has already ended.
      else if (ofText !== undefined)
        assembler(emit).addComplete({ type: 'text', text: '', signature: ofText })
      else if (at !== undefined) assembler(emit).add(at.part, added)
      else {
        hasParts = true
        const id = typeof item.id === 'string' ? item.id : undefined
        assembler(emit).addComplete(compact<ReasoningPart>({ type: 'reasoning', text: '', id, ...added }))
      }
    } else if (at === undefined) {
      for (const part of decodeItem(lenientFields(item), idsAndClock.newId)) assembler(emit).addComplete(part)
    }
    closeThoughts(data, emit)
  }

  function emitUsage(response: JsonObject, emit: Emit): void {
    const all = mostCalls(calls, callsIn(response))
    if (all !== undefined) emit({ type: 'providerTools', calls: all })
    const read = readResponsesUsage(response.usage, usage)
    if (read !== undefined) emit({ type: 'usage', usage: withToolCalls(read, all) })
  }

  function finish(response: JsonObject, emit: Emit): void {
    start(response, emit)
    // Some servers send the content in the last event only.
    if (!hasParts) for (const part of partsOf(response, options)) assembler(emit).addComplete(part)
    emitUsage(response, emit)
    assembler(emit).closeAll()
    emit({ type: 'finish', choice: 0, stop: decodeStop(response, assembler(emit).hasToolCalls) })
    emit({ type: 'end' })
  }
}

const itemKey = (data: JsonObject): string => String(data.output_index ?? 0)

const contentKey = (data: JsonObject): string => `${itemKey(data)}.${String(data.content_index ?? 0)}`
