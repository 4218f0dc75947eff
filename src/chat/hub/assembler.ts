import { createJsonProgress, type JsonProgress } from '../../wire/json-progress.ts'
import { openPart } from './answer.ts'
import type { Delta, Part, ToolCallPart } from './hub.ts'
import type { Emit } from './stream.ts'

/**
 * Numbers, opens and closes the parts of one choice. For decoders of formats with explicit part boundaries: `open`, `add`
 * and `close`. For formats that send fragments only: `say`.
 */
export type Assembler = {
  /** Appends to the current text if it has this type, else opens a new one. */
  append(type: 'text' | 'reasoning' | 'refusal', text: string): void
  /** Adds to the current part if it has this type, else opens a new one. */
  annotate(type: 'text' | 'reasoning', delta: Delta): void
  /** Opens a part, emits its initial content as deltas, and returns its number. */
  open(part: Part): number
  add(part: number, delta: Delta): void
  close(part: number): void
  /** A part that arrived complete. */
  addComplete(part: Part): void
  closeAll(): void
  /** The text of the current reasoning so far; empty: none is open. */
  reasoningText(): string
  readonly hasToolCalls: boolean
  /** Whether the current part is a text. */
  readonly isText: boolean
}

/** No model makes more calls at the same time. */
const MAX_OPEN = 256

type Open = {
  readonly content: Part
  text: string
  isSealed: boolean
  /** Of a call: whether its arguments are complete JSON yet. */
  readonly progress: JsonProgress
}

export function createAssembler(choice: number, emit: Emit): Assembler {
  const open = new Map<number, Open>()
  /** Open parts that close when the next part opens. */
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
    append(type, text) {
      if (text === '') return
      assembler.annotate(type as 'text', { text })
    },
    annotate(type, delta) {
      const currentPart = current === undefined ? undefined : open.get(current)
      // Signed reasoning is complete: what follows is a new part.
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
      // Clients parse the arguments, so a call without any gets an empty object.
      if (isCall(opened.content) && !opened.content.isCustom && opened.text === '') {
        emit({ type: 'delta', choice, part, text: '{}' })
      }
      emit({ type: 'close', choice, part })
    },
    addComplete(part) {
      assembler.close(assembler.open(part))
    },
    reasoningText() {
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
   * Closes other parts before a new one opens. Only a call with incomplete arguments stays open: its vendor streams
   * several calls at the same time.
   */
  function closeSettled(): void {
    if (settled.size === 0) return
    for (const part of [...settled].sort((a, b) => a - b)) assembler.close(part)
  }

  /** Many unfinished calls may be open: they are not checked again whenever a part opens. */
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
