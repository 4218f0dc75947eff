import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Token } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { span, tokens } from '../../look/format.ts'
import { Send } from '../../look/icons.ts'
import { Money } from '../../look/money.tsx'
import { ErrorCard } from '../../look/states.tsx'
import { sendChat } from '../playground/send-chat.ts'
import { otherOf, ROW } from '../usage/log-row.ts'

const LOOK_MS = 1_500

/** Shows the first requests, from here or from any client. */
export function RequestStep({
  token,
  model,
}: {
  readonly token: Token | undefined
  readonly model: string | undefined
}) {
  const { t } = useTranslation()
  const [fault, setFault] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const [response, setResponse] = useState('')
  const rows = useCall('listOwnLogs', { query: { page_size: 3, type: ROW.request } }, { refetchMs: LOOK_MS })
  const requests = rows.data?.items ?? []
  const send = async (tokenId: number | undefined, requestedModel: string) => {
    setBusy(true)
    setFault(undefined)
    setResponse('')
    try {
      await sendChat({
        tokenId,
        body: { model: requestedModel, messages: [{ role: 'user', content: 'Hello!' }] },
        onText: (kind, text) => kind === 'content' && setResponse(before => before + text),
      })
      await rows.refetch()
    } catch (error) {
      setFault(error)
    } finally {
      setBusy(false)
    }
  }
  return (
    <>
      {model ? (
        <Button
          icon={Send}
          className="self-start"
          isBusy={isBusy}
          onClick={() => void send(token?.id, model)}
        >
          {t('start.send')}
        </Button>
      ) : null}
      {response ? (
        <figure className="flex flex-col gap-1">
          <figcaption className="text-label font-medium text-ink-2">{t('start.response')}</figcaption>
          <blockquote className="rounded-control bg-sunken px-3 py-2 break-words whitespace-pre-wrap">
            {response}
          </blockquote>
        </figure>
      ) : null}
      {fault ? <ErrorCard error={fault} /> : null}
      {requests.length === 0 ? (
        <p role="status" className="text-ink-2">
          {t('start.waiting')}
        </p>
      ) : (
        <ul className="flex flex-col gap-2" aria-live="polite">
          {requests.map(row => (
            <li
              key={row.id}
              className="flex flex-wrap items-center gap-x-4 gap-y-1 rounded-control bg-ok-soft px-3 py-2"
            >
              <span className="font-mono text-code">{row.model_name}</span>
              <span>{t('test.first', { time: span(otherOf(row).frt) })}</span>
              <span>
                {tokens(row.prompt_tokens)} / {tokens(row.completion_tokens)}
              </span>
              <Money usd={row.cost} />
              <Link to="/usage/$requestId" params={{ requestId: row.request_id }} className="ml-auto">
                {t('start.open')}
              </Link>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}
