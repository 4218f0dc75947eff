import { Link } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { CopyIcon } from '../../look/copy.tsx'
import { span, tokens } from '../../look/format.ts'
import { Money } from '../../look/money.tsx'
import { ErrorCard } from '../../look/states.tsx'
import type { Turn } from './conversation.ts'

const LOOK_MS = 1_000

/** What the ledger says an answer cost: its row is there within a second. */
function Cost({ requestId }: { readonly requestId: string }) {
  const [isThere, setThere] = useState(false)
  const row = useCall(
    'listOwnLogs',
    { query: { request_id: requestId, page_size: 1 } },
    { everyMs: isThere ? false : LOOK_MS },
  )
  const found = row.data?.items[0]
  useEffect(() => setThere(found !== undefined), [found])
  return found ? <Money usd={found.cost} /> : null
}

/** An answer as it grows, and under it what it took. */
export function Answer({ turn }: { readonly turn: Turn }) {
  const { t } = useTranslation()
  const { asked } = turn
  return (
    <div className="flex max-w-full flex-col gap-2">
      <p className="font-mono text-label text-ink-3">{turn.model}</p>
      {turn.reasoning ? (
        <details className="rounded-control bg-sunken px-3 py-2 text-table text-ink-2">
          <summary>{t('playground.reasoning')}</summary>
          <p className="pt-2 whitespace-pre-wrap">{turn.reasoning}</p>
        </details>
      ) : null}
      {turn.answer ? <p className="break-words whitespace-pre-wrap">{turn.answer}</p> : null}
      {turn.isRunning && !turn.answer ? <p className="text-ink-3">{t('playground.waiting')}</p> : null}
      {turn.isStopped ? <p className="text-warn">{t('playground.stopped')}</p> : null}
      {turn.fault ? <ErrorCard error={turn.fault} /> : null}
      {asked ? (
        <p className="flex flex-wrap items-center gap-x-3 gap-y-1 text-label text-ink-3">
          <span>{t('test.first', { time: span(asked.firstMs) })}</span>
          <span>{t('playground.total', { time: span(asked.totalMs) })}</span>
          {asked.promptTokens === undefined ? null : (
            <span>
              {t('playground.tokens', {
                input: tokens(asked.promptTokens),
                output: tokens(asked.completionTokens ?? 0),
              })}
            </span>
          )}
          <Cost requestId={asked.requestId} />
          {asked.finish && asked.finish !== 'stop' ? <span className="text-warn">{asked.finish}</span> : null}
          <Link to="/usage/$requestId" params={{ requestId: asked.requestId }}>
            {t('start.open')}
          </Link>
          <CopyIcon text={turn.answer} label={t('playground.copy')} />
        </p>
      ) : null}
    </div>
  )
}
