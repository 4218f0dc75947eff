import { useTranslation } from 'react-i18next'
import { CodeBlock } from '../../look/code-block.tsx'
import { CopyIcon } from '../../look/copy.tsx'
import { count, span, tokens } from '../../look/format.ts'
import { ErrorCard } from '../../look/states.tsx'
import type { ChatTurn } from './conversations.ts'
import { Receipt } from './receipt.tsx'
import type { ChatResult } from './send-chat.ts'

const MS_PER_S = 1_000

/** Output tokens per second after the first token. */
function speedOf({ completionTokens = 0, firstMs, totalMs }: ChatResult): string | undefined {
  const spentMs = totalMs - (firstMs ?? totalMs)
  if (spentMs <= 0 || completionTokens < 2) return undefined
  return count(Math.round((completionTokens / spentMs) * MS_PER_S * 10) / 10)
}

function Figures({ result }: { readonly result: ChatResult }) {
  const { t } = useTranslation()
  const speed = speedOf(result)
  return (
    <>
      <span>{t('test.first', { time: span(result.firstMs) })}</span>
      {result.promptTokens === undefined ? null : (
        <span>
          {t('playground.tokens', {
            input: tokens(result.promptTokens),
            output: tokens(result.completionTokens ?? 0),
          })}
        </span>
      )}
      {speed ? <span>{t('playground.speed', { speed })}</span> : null}
      {result.finish && result.finish !== 'stop' ? <span className="text-warn">{result.finish}</span> : null}
    </>
  )
}

/** A response while it streams, with its usage below. */
export function Answer({ turn }: { readonly turn: ChatTurn }) {
  const { t } = useTranslation()
  const { result } = turn
  const isSilent = turn.isRunning && !turn.answer && !turn.reasoning && !turn.tools
  return (
    <div className="flex max-w-full flex-col gap-2">
      <p className="flex items-center gap-1 font-mono text-label text-ink-3">
        {turn.model}
        {turn.answer && !turn.isRunning ? <CopyIcon text={turn.answer} label={t('playground.copy')} /> : null}
      </p>
      {turn.reasoning ? (
        <details className="rounded-control bg-sunken px-3 py-2 text-table text-ink-2">
          <summary>{t('playground.reasoning')}</summary>
          <p className="pt-2 break-words whitespace-pre-wrap">{turn.reasoning}</p>
        </details>
      ) : null}
      {turn.answer ? <p className="break-words whitespace-pre-wrap">{turn.answer}</p> : null}
      {turn.tools ? (
        <div className="flex flex-col gap-1">
          <p className="text-label text-ink-2">{t('playground.tool_calls')}</p>
          <CodeBlock>{turn.tools}</CodeBlock>
        </div>
      ) : null}
      {isSilent ? <p className="text-ink-3">{t('playground.waiting')}</p> : null}
      {turn.isStopped ? <p className="text-warn">{t('playground.stopped')}</p> : null}
      {turn.fault ? <ErrorCard error={turn.fault} /> : null}
      {result ? (
        <Receipt request={result}>
          <Figures result={result} />
        </Receipt>
      ) : null}
    </div>
  )
}
