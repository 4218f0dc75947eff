import { useRef, useState } from 'react'
import { type Asked, askChat, type Message } from './send-chat.ts'

export type Question = {
  readonly text: string
  /** Pictures that go along, as data addresses. */
  readonly pictures: readonly string[]
}

/** A question and what came of it. */
export type Turn = {
  readonly question: Question
  readonly model: string
  readonly reasoning: string
  readonly tools: string
  readonly answer: string
  readonly isRunning: boolean
  readonly isStopped: boolean
  readonly asked?: Asked
  readonly fault?: unknown
}

export type Settings = {
  readonly tokenId: number | undefined
  readonly system: string
  /** Only what is given is sent. */
  readonly parameters: Readonly<Record<string, unknown>>
}

const contentOf = ({ text, pictures }: Question): Message['content'] =>
  pictures.length === 0
    ? text
    : [{ type: 'text', text }, ...pictures.map(url => ({ type: 'image_url' as const, image_url: { url } }))]

export const messagesOf = (turns: readonly Turn[], system: string, question: Question): Message[] => [
  ...(system ? [{ role: 'system' as const, content: system }] : []),
  ...turns
    .filter(({ answer }) => answer !== '')
    .flatMap(turn => [
      { role: 'user' as const, content: contentOf(turn.question) },
      { role: 'assistant' as const, content: turn.answer },
    ]),
  { role: 'user', content: contentOf(question) },
]

const fresh = (question: Question, model: string): Turn => ({
  question,
  model,
  reasoning: '',
  tools: '',
  answer: '',
  isRunning: true,
  isStopped: false,
})

const FIELD = { content: 'answer', reasoning: 'reasoning', tools: 'tools' } as const

/** Conversations side by side, each with one model; they live as long as the page. */
export function useConversations() {
  const [columns, setColumns] = useState<readonly (readonly Turn[])[]>([])
  const abort = useRef(new Set<AbortController>())

  const changeLast = (column: number, update: (turn: Turn) => Partial<Turn>) =>
    setColumns(before =>
      before.map((turns, at) =>
        at === column
          ? turns.map((turn, index) => (index === turns.length - 1 ? { ...turn, ...update(turn) } : turn))
          : turns,
      ),
    )

  async function askOne(
    column: number,
    model: string,
    messages: readonly Message[],
    { tokenId, parameters }: Settings,
  ) {
    const controller = new AbortController()
    abort.current.add(controller)
    try {
      const asked = await askChat({
        tokenId,
        signal: controller.signal,
        body: { model, messages, ...parameters },
        onText: (kind, text) => changeLast(column, turn => ({ [FIELD[kind]]: turn[FIELD[kind]] + text })),
      })
      changeLast(column, () => ({ asked }))
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
    /** Asks each model the same, each with what was said in its own column. */
    ask(question: Question, models: readonly string[], settings: Settings): void {
      setColumns(models.map((model, at) => [...(columns[at] ?? []), fresh(question, model)]))
      for (const [at, model] of models.entries())
        void askOne(at, model, messagesOf(columns[at] ?? [], settings.system, question), settings)
    },
    stop,
    /** Forgets everything from this turn on. */
    cutAt: (index: number) => setColumns(before => before.map(turns => turns.slice(0, index))),
    clear: () => {
      stop()
      setColumns([])
    },
  }
}
