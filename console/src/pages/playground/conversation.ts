import { useRef, useState } from 'react'
import { type Asked, askChat, type Message } from './ask-chat.ts'
import { useTokenKey } from './use-token-key.ts'

/** A question and what came of it. */
export type Turn = {
  readonly question: string
  readonly model: string
  readonly reasoning: string
  readonly answer: string
  readonly isRunning: boolean
  readonly isStopped: boolean
  readonly asked?: Asked
  readonly fault?: unknown
}

type Sending = {
  readonly tokenId: number
  readonly model: string
  readonly system: string
  readonly temperature?: number
  readonly maxTokens?: number
}

const messagesOf = (turns: readonly Turn[], system: string, question: string): Message[] => [
  ...(system ? [{ role: 'system' as const, content: system }] : []),
  ...turns
    .filter(turn => turn.answer !== '')
    .flatMap(turn => [
      { role: 'user' as const, content: turn.question },
      { role: 'assistant' as const, content: turn.answer },
    ]),
  { role: 'user', content: question },
]

/** A conversation with one model; it lives as long as the page. */
export function useConversation() {
  const keyOf = useTokenKey()
  const [turns, setTurns] = useState<readonly Turn[]>([])
  const abort = useRef<AbortController>(undefined)
  const change = (update: (turn: Turn) => Partial<Turn>) =>
    setTurns(before =>
      before.map((turn, index) => (index === before.length - 1 ? { ...turn, ...update(turn) } : turn)),
    )

  const ask = async (question: string, { tokenId, model, system, temperature, maxTokens }: Sending) => {
    const messages = messagesOf(turns, system, question)
    setTurns(before => [
      ...before,
      { question, model, reasoning: '', answer: '', isRunning: true, isStopped: false },
    ])
    const controller = new AbortController()
    abort.current = controller
    try {
      const asked = await askChat({
        apiKey: await keyOf(tokenId),
        signal: controller.signal,
        body: {
          model,
          messages,
          ...(temperature === undefined ? {} : { temperature }),
          ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
        },
        onText: (kind, text) =>
          change(turn =>
            kind === 'content' ? { answer: turn.answer + text } : { reasoning: turn.reasoning + text },
          ),
      })
      change(() => ({ asked }))
    } catch (fault) {
      change(() => (controller.signal.aborted ? { isStopped: true } : { fault }))
    } finally {
      change(() => ({ isRunning: false }))
    }
  }
  return {
    turns,
    isBusy: turns.at(-1)?.isRunning ?? false,
    ask,
    stop: () => abort.current?.abort(),
    clear: () => {
      abort.current?.abort()
      setTurns([])
    },
  }
}
