import type { JsonObject } from '../../../domain/json-value.ts'
import type { Usage } from '../../../domain/usage.ts'
import type { Stage } from '../../../wire/stage.ts'
import { ownExtras } from '../../hub/fields.ts'
import type { AnswerOptions } from '../../hub/format.ts'
import type { ChatEvent, Delta, Part, ReasoningPart } from '../../hub/hub.ts'
import { modelOfAnswer } from '../../hub/model-name.ts'
import { textSignatureThought } from '../../hub/signature.ts'
import { createEncoder, onOneLine, sseEvent } from '../../hub/stream.ts'
import { encodeAudio, encodeImage } from './answer.ts'
import { callSignature, encodeAnnotation, encodeDetail, FORMAT } from './content.ts'
import { errorBody } from './error.ts'
import { encodeLogprobs } from './logprobs.ts'
import { finishReason } from './stop.ts'
import { encodeUsage } from './usage.ts'

const DONE = Buffer.from('data: [DONE]\n\n')

type OpenPart = { readonly content: Part; readonly tool: number; readonly from: number; text: string }
type Start = Omit<Extract<ChatEvent, { type: 'start' }>, 'type'>
type ChoiceState = { readonly parts: Map<number, OpenPart>; tools: number; thoughts: number; length: number }

export function createStreamEncoder({ idsAndClock, request }: AnswerOptions): Stage<ChatEvent, Buffer> {
  const includeUsage = request?.includeUsage ?? false
  const isFirstForm = request?.isFirstForm === true
  const choices = new Map<number, ChoiceState>()
  // The beginning of every chunk, serialized once.
  let head: string | undefined
  let usage: Usage | undefined

  return createEncoder(event => {
    switch (event.type) {
      case 'start':
        head ??= headOf(event)
        return choices.has(0) ? [] : [begin(0)]
      case 'open':
        return [...openChoice(event.choice), ...open(event.choice, event.part, event.content)]
      case 'delta':
        return add(event.choice, event.part, event)
      case 'close':
        choices.get(event.choice)?.parts.delete(event.part)
        return []
      case 'logprobs':
        return [
          ...openChoice(event.choice),
          chunk(event.choice, {}, { logprobs: encodeLogprobs(event.tokens) }),
        ]
      case 'finish': {
        const finish_reason = finishReason(event.stop.reason, isFirstForm)
        return [
          ...openChoice(event.choice),
          chunk(event.choice, {}, { ...ownExtras(FORMAT, event.stop), finish_reason }),
        ]
      }
      case 'usage':
        usage = event.usage
        return []
      case 'error':
        return [sseEvent({ error: errorBody(event.error) })]
      case 'end': {
        if (!includeUsage || usage === undefined) return [DONE]
        return [framed('', JSON.stringify(encodeUsage(usage))), DONE]
      }
      default:
        return []
    }
  })

  function headOf(start: Start): string {
    const fields = {
      ...ownExtras(FORMAT, start),
      id: start.id || idsAndClock.newId('chatcmpl-'),
      object: 'chat.completion.chunk',
      created: start.createdS ?? idsAndClock.nowS(),
      model: modelOfAnswer(start.model, request),
    }
    return JSON.stringify(fields).slice(0, -1)
  }

  function framed(choices: string, usage: string | undefined): Buffer {
    head ??= headOf({ id: '', model: '' })
    const fields = `${head},"choices":[${choices}]${usage === undefined ? '' : `,"usage":${usage}`}}`
    return Buffer.from(`data: ${onOneLine(fields)}\n\n`)
  }

  function chunk(index: number, delta: JsonObject, more: JsonObject = {}): Buffer {
    const choice = { index, delta, logprobs: null, finish_reason: null, ...more }
    return framed(JSON.stringify(choice), includeUsage ? 'null' : undefined)
  }

  function begin(index: number): Buffer {
    choices.set(index, { parts: new Map(), tools: 0, thoughts: 0, length: 0 })
    return chunk(index, { role: 'assistant', content: '' })
  }

  function openChoice(index: number): readonly Buffer[] {
    return choices.has(index) ? [] : [begin(index)]
  }

  function open(index: number, number: number, content: Part): readonly Buffer[] {
    const state = choices.get(index) as ChoiceState
    const tool = content.type === 'toolCall' ? state.tools++ : 0
    state.parts.set(number, { content, tool, from: state.length, text: '' })
    switch (content.type) {
      case 'toolCall': {
        const { id, name, isCustom, signature } = content
        if (isFirstForm) return tool > 0 ? [] : [chunk(index, { function_call: { name, arguments: '' } })]
        const described = isCustom
          ? { type: 'custom', custom: { name, input: '' } }
          : { type: 'function', function: { name, arguments: '' } }
        return [
          chunk(index, { tool_calls: [{ index: tool, id, ...described, ...callSignature(signature) }] }),
        ]
      }
      case 'media':
        if (content.kind === 'audio') return [chunk(index, { audio: encodeAudio(content) })]
        return content.kind === 'image' ? [chunk(index, { images: encodeImage(content) })] : []
      default:
        return []
    }
  }

  function add(index: number, number: number, delta: Delta): readonly Buffer[] {
    const state = choices.get(index)
    const part = state?.parts.get(number)
    if (state === undefined || part === undefined) return []
    const { text, data, citation, signature } = delta
    switch (part.content.type) {
      case 'text':
        if (text !== undefined) state.length += text.length
        return [
          ...(text === undefined ? [] : [chunk(index, { content: text })]),
          ...(signature === undefined ? [] : [proof(index, state, textSignatureThought(signature))]),
          ...(citation === undefined ? [] : encodeAnnotation(citation, part.from, state.length)).map(
            annotation => chunk(index, { annotations: [annotation] }),
          ),
        ]
      case 'refusal':
        return text === undefined ? [] : [chunk(index, { refusal: text })]
      case 'reasoning':
        return encodeReasoning(index, { state, part, delta })
      case 'toolCall': {
        if (text === undefined) return []
        if (isFirstForm) return part.tool > 0 ? [] : [chunk(index, { function_call: { arguments: text } })]
        const described = part.content.isCustom
          ? { custom: { input: text } }
          : { function: { arguments: text } }
        return [chunk(index, { tool_calls: [{ index: part.tool, ...described }] })]
      }
      case 'media':
        if (part.content.kind !== 'audio') return []
        return [
          ...(data === undefined ? [] : [chunk(index, { audio: { data } })]),
          ...(text === undefined ? [] : [chunk(index, { audio: { transcript: text } })]),
        ]
      default:
        return []
    }
  }

  type Thought = { readonly state: ChoiceState; readonly part: OpenPart; readonly delta: Delta }

  /** A signature is sent with the complete reasoning text, because the client must send both back. */
  function encodeReasoning(index: number, { state, part, delta }: Thought): readonly Buffer[] {
    const { text, signature, encrypted } = delta
    const pieces: Buffer[] = []
    if (text !== undefined) {
      part.text += text
      pieces.push(chunk(index, { reasoning_content: text }))
    }
    if (signature === undefined && encrypted === undefined) return pieces
    const signedPart = {
      ...(part.content as ReasoningPart),
      text: part.text,
      ...(signature && { signature }),
      ...(encrypted && { encrypted }),
    }
    return [...pieces, proof(index, state, signedPart)]
  }

  function proof(index: number, state: ChoiceState, signedPart: ReasoningPart): Buffer {
    return chunk(index, { reasoning_details: [encodeDetail(signedPart, state.thoughts++)] })
  }
}
