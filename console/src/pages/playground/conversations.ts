import { useRef, useState } from 'react'
import { type ChatMessage, type ChatResult, sendChat } from './send-chat.ts'

export type Prompt = {
  readonly text: string
  /** Attached images, as data URLs. */
  readonly pictures: readonly string[]
}

/** A prompt and its response. */
export type ChatTurn = {
  readonly prompt: Prompt
  readonly model: string
  readonly reasoning: string
  readonly tools: string
  readonly answer: string
  readonly isRunning: boolean
  readonly isStopped: boolean
  readonly result?: ChatResult
  readonly fault?: unknown
}

export type ChatSettings = {
  readonly tokenId: number | undefined
  readonly system: string
  /** Only set parameters are sent. */
  readonly parameters: Readonly<Record<string, unknown>>
}

const contentOf = ({ text, pictures }: Prompt): ChatMessage['content'] =>
  pictures.length === 0
    ? text
    : [{ type: 'text', text }, ...pictures.map(url => ({ type: 'image_url' as const, image_url: { url } }))]

export const messagesOf = (turns: readonly ChatTurn[], system: string, prompt: Prompt): ChatMessage[] => [
  ...(system ? [{ role: 'system' as const, content: system }] : []),
  ...turns
    .filter(({ answer }) => answer !== '')
    .flatMap(turn => [
      { role: 'user' as const, content: contentOf(turn.prompt) },
      { role: 'assistant' as const, content: turn.answer },
    ]),
  { role: 'user', content: contentOf(prompt) },
]

const fresh = (prompt: Prompt, model: string): ChatTurn => ({
  prompt,
  model,
  reasoning: '',
  tools: '',
  answer: '',
  isRunning: true,
  isStopped: false,
})

const FIELD = { content: 'answer', reasoning: 'reasoning', tools: 'tools' } as const

/** Conversations side by side, one per model. They exist until the page is closed. */
export function useConversations() {
  const [columns, setColumns] = useState<readonly (readonly ChatTurn[])[]>([])
  const abort = useRef(new Set<AbortController>())

  const changeLast = (column: number, update: (turn: ChatTurn) => Partial<ChatTurn>) =>
    setColumns(before =>
      before.map((turns, at) =>
        at === column
          ? turns.map((turn, index) => (index === turns.length - 1 ? { ...turn, ...update(turn) } : turn))
          : turns,
      ),
    )

  async function sendToModel(
    column: number,
    model: string,
    messages: readonly ChatMessage[],
    { tokenId, parameters }: ChatSettings,
  ) {
    const controller = new AbortController()
    abort.current.add(controller)
    try {
      const result = await sendChat({
        tokenId,
        signal: controller.signal,
        body: { model, messages, ...parameters },
        onText: (kind, text) => changeLast(column, turn => ({ [FIELD[kind]]: turn[FIELD[kind]] + text })),
      })
      changeLast(column, () => ({ result }))
    } catch (fault) {
      changeLast(column, () => (controller.signal.aborted ? { isStopped: true } : { fault }))
    } finally {
      abort.current.delete(controller)
      changeLast(column, () => ({ isRunning: false }))
    }
  }

  const stop = () => {
    for (const controller of abort.current) controller.abort()
  }
  return {
    columns,
    isBusy: columns.some(turns => turns.at(-1)?.isRunning ?? false),
    /** Sends the prompt to each model, with the history of its own column. */
    ask(prompt: Prompt, models: readonly string[], settings: ChatSettings): void {
      setColumns(models.map((model, at) => [...(columns[at] ?? []), fresh(prompt, model)]))
      for (const [at, model] of models.entries())
        void sendToModel(at, model, messagesOf(columns[at] ?? [], settings.system, prompt), settings)
    },
    stop,
    /** Deletes this turn and all later ones. */
    cutAt: (index: number) => setColumns(before => before.map(turns => turns.slice(0, index))),
    clear: () => {
      stop()
      setColumns([])
    },
  }
}
