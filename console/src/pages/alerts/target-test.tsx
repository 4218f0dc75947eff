import { useEffect } from 'react'
import { useTranslation } from 'react-i18next'
import type { AlertTargetItem, AnswerOf } from '../../api/contract.ts'
import { useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Dialog } from '../../look/dialog.tsx'
import { CircleAlert, CircleCheck, LoaderCircle } from '../../look/icons.ts'
import { ErrorCard } from '../../look/states.tsx'
import { GatewayText } from '../../texts/gateway-text.tsx'

type TestResult = AnswerOf<'testAlertTarget'>

function Result({ result }: { readonly result: TestResult }) {
  const { t } = useTranslation()
  const { ok, status, error, latency_ms } = result
  const facts = [status === null ? '' : t('alerts.test_status', { status }), `${latency_ms} ms`]
  return (
    <div role="status" className="flex gap-3">
      {ok ? (
        <CircleCheck size={16} aria-hidden className="mt-0.5 shrink-0 text-ok" />
      ) : (
        <CircleAlert size={16} aria-hidden className="mt-0.5 shrink-0 text-bad" />
      )}
      <div className="flex min-w-0 flex-col gap-1">
        <p>{ok ? t('alerts.test_sent') : t('alerts.test_failed')}</p>
        {error ? (
          <p className="break-words text-ink-2">
            <GatewayText text={error} />
          </p>
        ) : null}
        <p className="text-label text-ink-3">{facts.filter(Boolean).join(' · ')}</p>
      </div>
    </div>
  )
}

/** Sends a test message when it opens, and shows the answer of the receiver. */
export function TargetTest({
  target,
  onClose,
}: {
  readonly target: AlertTargetItem
  readonly onClose: () => void
}) {
  const { t } = useTranslation()
  const { mutate, data, error, isPending } = useRouteMutation('testAlertTarget')
  useEffect(() => mutate({ params: { id: target.id } }), [mutate, target.id])
  return (
    <Dialog title={t('alerts.test_target', { name: target.name })} isOpen onClose={onClose}>
      {isPending ? (
        <p role="status" className="flex items-center gap-2 text-ink-2">
          <LoaderCircle size={16} className="animate-spin" aria-hidden />
          {t('alerts.test_running')}
        </p>
      ) : null}
      {error ? <ErrorCard error={error} /> : null}
      {data && !isPending ? <Result result={data} /> : null}
      <div className="flex justify-end gap-2">
        <Button onClick={() => mutate({ params: { id: target.id } })} disabled={isPending}>
          {t('alerts.test_again')}
        </Button>
        <Button kind="primary" onClick={onClose}>
          {t('common.close')}
        </Button>
      </div>
    </Dialog>
  )
}
