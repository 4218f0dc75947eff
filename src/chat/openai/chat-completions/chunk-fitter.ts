import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { createSseScanner, dataText, type SseFrame } from '../../../wire/sse.ts'
import type { Stage } from '../../../wire/stage.ts'
import { sseEvent } from '../../hub/stream.ts'
import { thinkingText } from './content.ts'
import { errorBody, errorInside } from './error.ts'

/**
 * Rewrites chunks of a dialect that clients of the common format cannot parse: content as a list of parts, calls without
 * an index, and errors outside of `error`. All other events are forwarded byte for byte.
 */
export function createChunkFitter(): Stage<Buffer, Buffer> {
  const scanner = createSseScanner()
  const choices = new Map<unknown, CallIndexes>()

  function fitFrames(frames: readonly SseFrame[]): readonly Buffer[] {
    const pieces: Buffer[] = []
    let from: SseFrame | undefined
    let to: SseFrame | undefined
    const pass = () => {
      if (from !== undefined && to !== undefined) pieces.push(from.source.subarray(from.start, to.end))
      from = undefined
    }
    for (const frame of frames) {
      const fitted = fitFrame(frame)
      if (fitted !== undefined) {
        pass()
        pieces.push(fitted)
        continue
      }
      // Adjacent frames of one buffer are forwarded as one chunk.
      if (from?.source !== frame.source) pass()
      from ??= frame
      to = frame
    }
    pass()
    return pieces
  }

  function fitFrame(frame: SseFrame): Buffer | undefined {
    if (frame.data.length !== 2 || !frame.isWhole) return undefined
    const chunk = parse(dataText(frame))
    if (!isObject(chunk)) return undefined
    if (isBareError(chunk)) return sseEvent({ error: errorBody(errorInside(chunk)) })
    const list = chunk.choices
    if (!Array.isArray(list) || !list.some(needsRewrite)) return undefined
    return sseEvent({ ...chunk, choices: list.map(fitChoice) }, frame.event || undefined)
  }

  function fitChoice(choice: unknown): unknown {
    if (!isObject(choice) || !isObject(choice.delta)) return choice
    const { tool_calls: calls } = choice.delta
    const delta = { ...choice.delta, ...fitContent(choice.delta.content) }
    if (!Array.isArray(calls)) return { ...choice, delta }
    const indexes = choices.get(choice.index) ?? createCallIndexes()
    choices.set(choice.index, indexes)
    return { ...choice, delta: { ...delta, tool_calls: calls.map(call => fitCall(call, indexes)) } }
  }

  return {
    push: chunk => fitFrames(scanner.push(chunk)),
    end: () => fitFrames(scanner.end()),
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // `[DONE]`, or an event that is left to the client.
    return undefined
  }
}

const isBareError = ({ object, error, choices }: JsonObject): boolean =>
  object === 'error' && error === undefined && choices === undefined

function needsRewrite(choice: unknown): boolean {
  const delta = member(choice, 'delta')
  const calls = member(delta, 'tool_calls')
  const hasUnnumbered = Array.isArray(calls) && calls.some(call => typeof member(call, 'index') !== 'number')
  return Array.isArray(member(delta, 'content')) || hasUnnumbered
}

/** Splits content into text and reasoning, each in the field that clients read. */
function fitContent(content: unknown): JsonObject {
  if (!Array.isArray(content)) return {}
  const texts = content.map(part => member(part, 'text')).filter(text => typeof text === 'string')
  const thoughts = content.map(part => thinkingText(member(part, 'thinking'))).join('')
  return {
    content: texts.length === 0 ? null : texts.join(''),
    ...(thoughts !== '' && { reasoning_content: thoughts }),
  }
}

type CallIndexes = { of(call: JsonObject): number }

/** Numbers the calls of one choice in the order in which they start: by index, else by id. */
function createCallIndexes(): CallIndexes {
  const byId = new Map<string, number>()
  let last = -1
  return {
    of({ id, index }) {
      const isNamed = typeof id === 'string' && id !== ''
      const existing = isNamed ? byId.get(id) : Math.max(0, last)
      const number = typeof index === 'number' ? index : (existing ?? last + 1)
      if (isNamed) byId.set(id, number)
      last = Math.max(last, number)
      return number
    },
  }
}

const fitCall = (call: unknown, indexes: CallIndexes): unknown =>
  isObject(call) ? { type: 'function', ...call, index: indexes.of(call) } : call
