import { isObject, type JsonObject } from '../../domain/json-value.ts'
import { createLineScanner } from '../../wire/json-lines.ts'
import { type Assembler, createAssembler } from '../hub/assembler.ts'
import { compact } from '../hub/fields.ts'
import type { StreamDecoder, StreamDecoderOptions } from '../hub/format.ts'
import type { ChatEvent, StopReason } from '../hub/hub.ts'
import { createDecoder, type Emit } from '../hub/stream.ts'
import { createdIn, decodeParts } from './content.ts'
import { decodeError } from './error.ts'
import { decodeStop } from './stop.ts'
import { readOllamaUsage } from './usage.ts'

/** Each line has the shape of a complete answer and holds a piece of it; calls are never split. */
export function createStreamDecoder({ idsAndClock }: StreamDecoderOptions): StreamDecoder {
  let parts: Assembler | undefined
  let stop: StopReason | undefined

  return createDecoder<unknown>(createLineScanner(), {
    frame(line, emit) {
      if (!isObject(line)) return
      if (line.error) emit({ type: 'error', error: decodeError({ status: 200, body: line }) })
      else read(line, emit)
    },
    isComplete: () => stop !== undefined,
    finish(emit) {
      parts?.closeAll()
      emit({ type: 'finish', choice: 0, stop: { reason: stop ?? 'stop' } })
    },
  })

  function read(line: JsonObject, emit: Emit): void {
    if (!isObject(line.message) && line.done !== true) return
    if (parts === undefined) {
      parts = createAssembler(0, emit)
      const model = typeof line.model === 'string' ? line.model : ''
      emit(compact<ChatEvent>({ type: 'start', id: '', model, createdS: createdIn(line) }))
    }
    for (const part of decodeParts(line.message, idsAndClock.newId)) {
      if (part.type === 'text' || part.type === 'reasoning') parts.append(part.type, part.text)
      else parts.addComplete(part)
    }
    if (line.done !== true) return
    const usage = readOllamaUsage(line)
    if (usage !== undefined) emit({ type: 'usage', usage })
    stop = decodeStop(line.done_reason, parts.hasToolCalls)
    emit({ type: 'end' })
  }
}
