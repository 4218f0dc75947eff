import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import type { ToolCalls } from '../../../domain/usage.ts'
import { toolCallOf, withCall } from '../../../metering/tool-calls.ts'
import { parseBounded } from '../../../wire/json-bounds.ts'
import { type Assembler, createAssembler } from '../../hub/assembler.ts'
import { chatError } from '../../hub/error.ts'
import { compact, extrasOf, lenientFields } from '../../hub/fields.ts'
import type { StreamDecoder, StreamDecoderOptions } from '../../hub/format.ts'
import type { ChatEvent, Signature, Stop, ToolCallPart } from '../../hub/hub.ts'
import {
  callSignatureOf,
  isCallSignature,
  signatureOfText,
  unpackReasoningSignature,
} from '../../hub/signature.ts'
import { createDecoder, createJsonScanner, type Emit, type JsonFrame } from '../../hub/stream.ts'
import { decodeBlock, decodeCitation, FORMAT } from './content.ts'
import { decodeError } from './error.ts'
import { decodeStop } from './stop.ts'
import { mergedUsage, readAnthropicUsage } from './usage.ts'

/** The decoded part of a block in the stream. */
type Block =
  | { readonly kind: 'part'; readonly part: number }
  /** Opens with its first text: an empty block may turn out not to be reasoning. */
  | { readonly kind: 'thought' }
  /** Emitted when it is complete. */
  | { readonly kind: 'vendor'; readonly value: JsonObject; json: string }

/** Inputs of the vendor's own tools, such as queries, are short; a longer one is truncated. */
const MAX_VENDOR_INPUT = 2 ** 20

/** Any value other than a text does not end the answer. */
const isReason = (value: unknown) => typeof value === 'string' && value !== ''

export function createStreamDecoder(_options: StreamDecoderOptions): StreamDecoder {
  const blocks = new Map<number, Block>()
  let parts: Assembler | undefined
  let usage: JsonObject = {}
  let stop: Stop | undefined
  let pending: Signature | undefined
  let calls: ToolCalls | undefined

  return createDecoder<JsonFrame>(createJsonScanner(), {
    frame({ event, text, data }, emit) {
      if (event === 'error' || member(data, 'type') === 'error') {
        return emit({ type: 'error', error: decodeError({ status: 200, body: data ?? text }) })
      }
      if (isObject(data)) read(data, emit)
    },
    isComplete: () => stop !== undefined,
    finish(emit) {
      parts?.closeAll()
      emit({ type: 'finish', choice: 0, stop: stop ?? { reason: 'stop' } })
    },
  })

  function read(data: JsonObject, emit: Emit): void {
    switch (data.type) {
      case 'message_start':
        start(data.message, emit)
        break
      case 'content_block_start':
        open(indexOf(data), data.content_block, emit)
        break
      case 'content_block_delta':
        add(indexOf(data), data.delta, emit)
        break
      case 'content_block_stop':
        close(indexOf(data), emit)
        break
      case 'message_delta':
        reportUsage(data.usage, emit)
        if (isReason(member(data.delta, 'stop_reason')))
          stop = decodeStop(data.delta, parts?.hasToolCalls ?? false)
        break
      case 'message_stop':
        emit({ type: 'end' })
        break
      default:
      // Pings and unknown event types.
    }
  }

  function start(message: unknown, emit: Emit): void {
    if (!isObject(message)) return
    if (parts !== undefined) {
      restart(emit)
      return
    }
    const fields = lenientFields(message)
    for (const name of ['type', 'role', 'content', 'stop_reason', 'stop_sequence', 'stop_details', 'usage']) {
      fields.any(name)
    }
    parts = createAssembler(0, emit)
    emit(
      compact<ChatEvent & { type: 'start' }>({
        type: 'start',
        id: fields.text('id') ?? '',
        model: fields.text('model') ?? '',
        extras: extrasOf(FORMAT, fields.rest()),
      }),
    )
    reportUsage(member(message, 'usage'), emit)
  }

  /**
   * A proxy that lost its upstream may restart the answer within the same stream. Text simply continues, because it
   * cannot be taken back. A call would be made twice or with partial arguments, so it is an error.
   */
  function restart(emit: Emit): void {
    if (parts?.hasToolCalls) {
      const message = 'The provider restarted the response after a tool call.'
      emit({ type: 'error', error: chatError('server', message) })
      return
    }
    parts?.closeAll()
    blocks.clear()
  }

  function reportUsage(reportedUsage: unknown, emit: Emit): void {
    usage = mergedUsage(usage, reportedUsage)
    const read = readAnthropicUsage(usage)
    if (read !== undefined) emit({ type: 'usage', usage: read })
  }

  function assembler(emit: Emit): Assembler {
    parts ??= createAssembler(0, emit)
    return parts
  }

  function open(index: number, block: unknown, emit: Emit): void {
    if (!isObject(block)) return
    const call = toolCallOf(block)
    if (call !== undefined) {
      calls = withCall(calls, call)
      emit({ type: 'providerTools', calls })
    }
    if (block.type === 'thinking') {
      blocks.set(index, { kind: 'thought' })
      if (typeof block.thinking === 'string' && block.thinking !== '') think(index, block.thinking, emit)
      return
    }
    const part = decodeBlock(lenientFields(block))
    if (part.type === 'vendor') blocks.set(index, { kind: 'vendor', value: block, json: '' })
    else if (part.type === 'toolCall') blocks.set(index, { kind: 'part', part: openCall(part, emit) })
    else blocks.set(index, { kind: 'part', part: assembler(emit).open(part) })
  }

  /** The input at the start of a call is a placeholder, unless it has members. */
  function openCall(call: ToolCallPart, emit: Emit): number {
    const signature = pending
    pending = undefined
    const text = call.arguments === '{}' ? '' : call.arguments
    return assembler(emit).open({ ...call, arguments: text, ...(signature && { signature }) })
  }

  /** The number of the reasoning part of a block, which opens here if it has not yet. */
  function think(index: number, text: string, emit: Emit): number {
    const block = blocks.get(index)
    const part = block?.kind === 'part' ? block.part : assembler(emit).open({ type: 'reasoning', text: '' })
    blocks.set(index, { kind: 'part', part })
    if (text !== '') assembler(emit).add(part, { text })
    return part
  }

  function add(index: number, delta: unknown, emit: Emit): void {
    const block = blocks.get(index)
    if (block === undefined || !isObject(delta)) return
    const { type, text, thinking, signature, citation, partial_json } = delta
    if (block.kind === 'vendor') {
      if (typeof partial_json === 'string' && block.json.length < MAX_VENDOR_INPUT) block.json += partial_json
      return
    }
    if (type === 'thinking_delta' && typeof thinking === 'string') think(index, thinking, emit)
    else if (type === 'signature_delta' && typeof signature === 'string' && signature !== '') {
      sign(index, signature, emit)
    } else if (block.kind === 'part') {
      if (type === 'text_delta' && typeof text === 'string') assembler(emit).add(block.part, { text })
      if (type === 'input_json_delta' && typeof partial_json === 'string' && partial_json !== '') {
        assembler(emit).add(block.part, { text: partial_json })
      }
      if (type === 'citations_delta' && isObject(citation)) {
        assembler(emit).add(block.part, { citation: decodeCitation(citation) })
      }
    }
  }

  function sign(index: number, text: string, emit: Emit): void {
    const unpacked = unpackReasoningSignature(FORMAT, text, 'signature')
    const ofText = signatureOfText(unpacked)
    if (unpacked.signature !== undefined && isCallSignature(unpacked.signature)) {
      pending = callSignatureOf(unpacked.signature)
    } else if (ofText !== undefined) {
      // The block of the text has already ended.
      assembler(emit).addComplete({ type: 'text', text: '', signature: ofText })
    } else assembler(emit).add(think(index, '', emit), unpacked)
  }

  function close(index: number, emit: Emit): void {
    const block = blocks.get(index)
    blocks.delete(index)
    if (block?.kind === 'part') assembler(emit).close(block.part)
    if (block?.kind === 'vendor') {
      assembler(emit).addComplete({
        type: 'vendor',
        format: FORMAT,
        value: withInput(block.value, block.json),
      })
    }
  }
}

const indexOf = (data: JsonObject): number => (typeof data.index === 'number' ? data.index : 0)

function withInput(value: JsonObject, json: string): JsonObject {
  if (json === '') return value
  try {
    return { ...value, input: parseBounded(json) }
  } catch {
    // A partial input is dropped; the block still shows that the tool was called.
    return value
  }
}
