import { createJsonProgress, type JsonProgress } from '../../wire/json-progress.ts'
import { openPart } from './answer.ts'
import type { Delta, Part, ToolCallPart } from './hub.ts'
import type { Emit } from './stream.ts'

/**
 * Numbers, opens and closes the parts of one choice, for decoders of formats that tell no borders between them. A format
 * that tells them uses `open`, `add` and `close`; one that only sends pieces uses `say`.
 */
export type Assembler = {
  /** Goes on with the text at hand if it is of this type, and begins one otherwise. */
  say(type: 'text' | 'reasoning' | 'refusal', text: string): void
  /** Adds to the part at hand, if it is of this type; begins one otherwise. */
  annotate(type: 'text' | 'reasoning', delta: Delta): void
  /** Opens a part, emits its initial content as deltas, and returns its number. */
  open(part: Part): number
  add(part: number, delta: Delta): void
  close(part: number): void
  /** A part that came whole. */
  whole(part: Part): void
  closeAll(): void
  /** What the reasoning at hand says so far; empty where none is at hand. */
  thought(): string
  readonly hasToolCalls: boolean
  /** Whether the part at hand is a text. */
  readonly isText: boolean
}

/** No model makes so many calls at a time. */
const MAX_OPEN = 256

type Open = {
  readonly content: Part
  text: string
  isSealed: boolean
  /** Of the arguments of a call: whether they are a whole JSON value yet. */
  readonly progress: JsonProgress
}

export function createAssembler(choice: number, emit: Emit): Assembler {
  const open = new Map<number, Open>()
  /** Open parts that end when the next part begins. */
  const settled = new Set<number>()
  let next = 0
  let current: number | undefined
  let hasToolCalls = false

  const assembler: Assembler = {
    get hasToolCalls() {
      return hasToolCalls
    },
    get isText() {
      return current !== undefined && open.get(current)?.content.type === 'text'
    },
    say(type, text) {
      if (text === '') return
      assembler.annotate(type as 'text', { text })
    },
    annotate(type, delta) {
      const currentPart = current === undefined ? undefined : open.get(current)
      // A thought that has its proof is complete: what comes is the next one.
      const goesOn = currentPart?.content.type === type && !currentPart.isSealed
      assembler.add(goesOn && current !== undefined ? current : begin(type), delta)
    },
    open(content) {
      closeSettled()
      if (open.size >= MAX_OPEN)
        throw new Error('The response of the provider has too many unfinished parts.')
      const part = next
      next += 1
      current = part
      if (content.type === 'toolCall') hasToolCalls = true
      for (const event of openPart(choice, part, content)) emit(event)
      const text = textOf(content)
      const progress = createJsonProgress()
      progress.push(text)
      const opened = { content, text, isSealed: false, progress }
      open.set(part, opened)
      noteSettled(part, opened)
      return part
    },
    add(part, delta) {
      const opened = open.get(part)
      if (opened === undefined) return
      if (opened.content.type === 'toolCall' || opened.content.type === 'reasoning')
        opened.text += delta.text ?? ''
      if (isCall(opened.content)) {
        opened.progress.push(delta.text ?? '')
        noteSettled(part, opened)
      }
      if (opened.content.type === 'reasoning' && (delta.signature ?? delta.encrypted)) opened.isSealed = true
      emit({ type: 'delta', choice, part, ...delta })
    },
    close(part) {
      const opened = open.get(part)
      if (opened === undefined) return
      open.delete(part)
      settled.delete(part)
      if (current === part) current = undefined
      // Clients parse the arguments, so a call without any has an empty object.
      if (isCall(opened.content) && !opened.content.isCustom && opened.text === '') {
        emit({ type: 'delta', choice, part, text: '{}' })
      }
      emit({ type: 'close', choice, part })
    },
    whole(part) {
      assembler.close(assembler.open(part))
    },
    thought() {
      const currentPart = current === undefined ? undefined : open.get(current)
      return currentPart?.content.type === 'reasoning' ? currentPart.text : ''
    },
    closeAll() {
      for (const part of [...open.keys()]) assembler.close(part)
    },
  }
  return assembler

  function begin(type: 'text' | 'reasoning' | 'refusal'): number {
    return assembler.open({ type, text: '' })
  }

  /**
   * Before a part begins, the others end. Only a call whose arguments are not complete yet stays open: its vendor tells
   * several calls at a time, piece by piece.
   */
  function closeSettled(): void {
    if (settled.size === 0) return
    for (const part of [...settled].sort((a, b) => a - b)) assembler.close(part)
  }

  /** Many unfinished calls may be open: they are not looked at again each time that a part opens. */
  function noteSettled(part: number, { content, progress }: Open): void {
    if (!isCall(content) || content.isCustom || progress.isWhole()) settled.add(part)
    else settled.delete(part)
  }
}

function textOf(part: Part): string {
  if (part.type === 'toolCall') return part.arguments
  return part.type === 'reasoning' ? part.text : ''
}

const isCall = (part: Part): part is ToolCallPart => part.type === 'toolCall'
