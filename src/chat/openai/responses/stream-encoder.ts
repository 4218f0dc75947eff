import type { JsonObject } from '../../../domain/json-value.ts'
import type { Usage } from '../../../domain/usage.ts'
import type { Stage } from '../../../wire/stage.ts'
import type { AnswerOptions } from '../../hub/format.ts'
import type {
  ChatError,
  ChatEvent,
  Citation,
  Delta,
  Part,
  ReasoningPart,
  Signature,
  Stop,
  TokenLogprob,
  ToolCallPart,
} from '../../hub/hub.ts'
import { createEncoder, sseEvent } from '../../hub/stream.ts'
import { errorBody } from '../chat-completions/error.ts'
import { encodeLogprobs } from '../chat-completions/logprobs.ts'
import {
  callSignatureItem,
  contentPart,
  encodeStop,
  frameOf,
  mediaItem,
  messageItem,
  textSignatureItem,
} from './answer.ts'
import { callItem, encodeAnnotation, FORMAT, reasoningItem } from './content.ts'
import { encodeUsage } from './usage.ts'

/** An open output item. The format repeats each item at its end, and all items in the last event. */
type Item = { readonly index: number; readonly id: string }
type OpenText = Item & {
  readonly kind: 'said'
  readonly content: number
  readonly type: 'text' | 'refusal'
  text: string
  readonly citations: Citation[]
  signature?: Signature
}
type Calling = Item & { readonly kind: 'call'; readonly call: ToolCallPart; text: string }
type Thinking = Item & { readonly kind: 'thought'; part: ReasoningPart; hasSummary: boolean }

type Message = Item & { readonly content: JsonObject[] }

/** An answer in this format has one choice; further choices are never requested. */
export function createStreamEncoder(options: AnswerOptions): Stage<ChatEvent, Buffer> {
  const { idsAndClock } = options
  const open = new Map<number, OpenText | Calling | Thinking>()
  const output: JsonObject[] = []
  let frame: JsonObject | undefined
  let sequence = 0
  let nextIndex = 0
  let message: Message | undefined
  let tokens: TokenLogprob[] = []
  let stop: Stop = { reason: 'stop' }
  let usage: Usage | undefined

  return createEncoder(event => {
    if ('choice' in event && event.choice !== 0) return []
    switch (event.type) {
      case 'start':
        return started(event)
      case 'open':
        return [...started(), ...begin(event.part, event.content)]
      case 'delta':
        return add(event.part, event)
      case 'close':
        return close(event.part)
      case 'logprobs':
        tokens.push(...event.tokens)
        return []
      case 'finish':
        stop = event.stop
        return []
      case 'usage':
        usage = event.usage
        return []
      case 'error':
        return fail(event.error)
      case 'end':
        return finish()
      default:
        return []
    }
  })

  function eventOf(type: string, data: JsonObject): Buffer {
    return sseEvent({ type, sequence_number: sequence++, ...data }, type)
  }

  function started(head: { id: string; model: string } = { id: '', model: '' }) {
    if (frame !== undefined) return []
    frame = frameOf(head, options)
    return [
      eventOf('response.created', { response: frame }),
      eventOf('response.in_progress', { response: frame }),
    ]
  }

  /** Closes the open message before another item: a message holds several parts and ends when another item begins. */
  function endMessage(): readonly Buffer[] {
    if (message === undefined) return []
    const { index, id, content } = message
    message = undefined
    return [endItem(index, messageItem(id, content))]
  }

  function endItem(index: number, item: JsonObject): Buffer {
    output[index] = item
    return eventOf('response.output_item.done', { output_index: index, item })
  }

  function addItem(index: number, item: JsonObject): Buffer {
    return eventOf('response.output_item.added', { output_index: index, item })
  }

  function completeItem(item: JsonObject): readonly Buffer[] {
    const index = nextIndex++
    return [addItem(index, item), endItem(index, item)]
  }

  function begin(number: number, content: Part): readonly Buffer[] {
    switch (content.type) {
      case 'text':
      case 'refusal':
        return beginText(number, content.type)
      case 'toolCall': {
        const before = [
          ...endMessage(),
          ...callSignatureItem(content, idsAndClock.newId).flatMap(completeItem),
        ]
        const item = { index: nextIndex++, id: idsAndClock.newId('fc_') }
        open.set(number, { ...item, kind: 'call', call: content, text: '' })
        return [...before, addItem(item.index, { id: item.id, ...callItem(content), status: 'in_progress' })]
      }
      case 'reasoning': {
        const before = endMessage()
        const item = { index: nextIndex++, id: content.id ?? idsAndClock.newId('rs_') }
        open.set(number, { ...item, kind: 'thought', part: content, hasSummary: false })
        return [...before, addItem(item.index, { id: item.id, type: 'reasoning', summary: [] })]
      }
      case 'media':
        // Audio is sent as its transcript.
        if (content.kind === 'audio') return beginText(number, 'text')
        return [...endMessage(), ...completeItem(mediaItem(content, idsAndClock.newId))]
      case 'vendor':
        return content.format === FORMAT ? [...endMessage(), ...completeItem(content.value)] : []
      default:
        return []
    }
  }

  function beginText(number: number, type: 'text' | 'refusal'): readonly Buffer[] {
    const pieces: Buffer[] = []
    if (message === undefined) {
      message = { index: nextIndex++, id: idsAndClock.newId('msg_'), content: [] }
      pieces.push(addItem(message.index, messageItem(message.id, [], 'in_progress')))
    }
    const { index, id, content } = message
    open.set(number, { kind: 'said', index, id, content: content.length, type, text: '', citations: [] })
    const part = contentPart({ type, text: '' })
    pieces.push(
      eventOf('response.content_part.added', { ...placeOf(id, index), content_index: content.length, part }),
    )
    content.push(part)
    return pieces
  }

  function add(number: number, delta: Delta): readonly Buffer[] {
    const openPart = open.get(number)
    switch (openPart?.kind) {
      case 'said':
        return appendText(openPart, delta)
      case 'call': {
        const { text } = delta
        if (text === undefined) return []
        openPart.text += text
        const type = openPart.call.isCustom ? 'custom_tool_call_input' : 'function_call_arguments'
        return [eventOf(`response.${type}.delta`, { ...placeOf(openPart.id, openPart.index), delta: text })]
      }
      case 'thought':
        return appendReasoning(openPart, delta)
      default:
        return []
    }
  }

  function appendText(textPart: OpenText, { text, citation, signature }: Delta): readonly Buffer[] {
    if (signature !== undefined) textPart.signature = signature
    const place = { ...placeOf(textPart.id, textPart.index), content_index: textPart.content }
    const pieces: Buffer[] = []
    if (text !== undefined) {
      textPart.text += text
      const more = textPart.type === 'text' ? { logprobs: [] } : {}
      const type = textPart.type === 'text' ? 'output_text' : 'refusal'
      pieces.push(eventOf(`response.${type}.delta`, { ...place, delta: text, ...more }))
    }
    if (citation !== undefined) {
      const annotation = encodeAnnotation(citation, textPart.text.length)
      const annotation_index = textPart.citations.push(citation) - 1
      pieces.push(
        eventOf('response.output_text.annotation.added', { ...place, annotation_index, annotation }),
      )
    }
    return pieces
  }

  function appendReasoning(thought: Thinking, { text, signature, encrypted }: Delta): readonly Buffer[] {
    const { part } = thought
    thought.part = {
      ...part,
      text: part.text + (text ?? ''),
      ...(signature && { signature }),
      ...(encrypted && { encrypted }),
    }
    if (text === undefined) return []
    const place = { ...placeOf(thought.id, thought.index), summary_index: 0 }
    const summary = { type: 'summary_text', text: '' }
    const before = thought.hasSummary
      ? []
      : [eventOf('response.reasoning_summary_part.added', { ...place, part: summary })]
    thought.hasSummary = true
    return [...before, eventOf('response.reasoning_summary_text.delta', { ...place, delta: text })]
  }

  function close(number: number): readonly Buffer[] {
    const openPart = open.get(number)
    open.delete(number)
    switch (openPart?.kind) {
      case 'said':
        return endText(openPart)
      case 'call':
        return endCall(openPart)
      case 'thought':
        return endThought(openPart)
      default:
        return []
    }
  }

  function endText(textPart: OpenText): readonly Buffer[] {
    const { type, text, citations, signature, index, id } = textPart
    const cited = citations.length === 0 ? {} : { citations }
    const part = contentPart({ type, text, ...cited } as Part, type === 'text' ? tokens : [])
    const signatureItem = signature && textSignatureItem({ type: 'text', text, signature }, idsAndClock.newId)
    const place = { ...placeOf(id, index), content_index: textPart.content }
    if (message?.index === index) message.content[textPart.content] = part
    const fields = type === 'text' ? { text, logprobs: encodeLogprobs(tokens).content } : { refusal: text }
    if (type === 'text') tokens = []
    return [
      eventOf(`response.${type === 'text' ? 'output_text' : 'refusal'}.done`, { ...place, ...fields }),
      eventOf('response.content_part.done', { ...place, part }),
      ...(signatureItem === undefined ? [] : [...endMessage(), ...signatureItem.flatMap(completeItem)]),
    ]
  }

  function endCall({ index, id, call, text }: Calling): readonly Buffer[] {
    const item = { id, ...callItem({ ...call, arguments: text }), status: 'completed' }
    const done = call.isCustom
      ? eventOf('response.custom_tool_call_input.done', { ...placeOf(id, index), input: text })
      : eventOf('response.function_call_arguments.done', {
          ...placeOf(id, index),
          name: call.name,
          arguments: text,
        })
    return [done, endItem(index, item)]
  }

  function endThought({ index, id, part, hasSummary }: Thinking): readonly Buffer[] {
    const place = { ...placeOf(id, index), summary_index: 0 }
    const { text } = part
    const summary = hasSummary
      ? [
          eventOf('response.reasoning_summary_text.done', { ...place, text }),
          eventOf('response.reasoning_summary_part.done', { ...place, part: { type: 'summary_text', text } }),
        ]
      : []
    return [...summary, endItem(index, reasoningItem([part], id))]
  }

  function responseObject(more: JsonObject): JsonObject {
    return { ...frame, output, usage: usage === undefined ? null : encodeUsage(usage), ...more }
  }

  function finish(): readonly Buffer[] {
    const before = [...started(), ...[...open.keys()].flatMap(close), ...endMessage()]
    const encodedStop = encodeStop(stop)
    return [
      ...before,
      eventOf(`response.${String(encodedStop.status)}`, { response: responseObject(encodedStop) }),
    ]
  }

  function fail(error: ChatError): readonly Buffer[] {
    const before = started()
    const { code, message, param, type } = errorBody(error)
    const errorEvent = eventOf('error', { code, message, param, error: { type, code, message, param } })
    const response = responseObject({ status: 'failed', error: { code: code ?? 'server_error', message } })
    return [...before, errorEvent, eventOf('response.failed', { response })]
  }
}

const placeOf = (item_id: string, output_index: number): JsonObject => ({ item_id, output_index })
