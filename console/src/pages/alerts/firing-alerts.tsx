import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { CircleAlert, TriangleAlert } from '../../look/icons.ts'
import { Moment } from '../../look/moment.tsx'
import { Sheet } from '../../look/page.tsx'
import { ErrorCard } from '../../look/states.tsx'
import { useAlertTexts } from './alert-texts.ts'

const REFETCH_MS = 15_000
const MAX_SHOWN = 5

/** The alerts that fire now; nothing if there are none. */
export function FiringAlerts() {
  const { t } = useTranslation()
  const { describe, kindLabel } = useAlertTexts()
  const firing = useCall('listFiringAlerts', {}, { refetchMs: REFETCH_MS })
  const alerts = firing.data ?? []
  if (firing.error && !firing.data)
    return <ErrorCard error={firing.error} onRetry={() => void firing.refetch()} />
  if (alerts.length === 0) return null
  return (
    <Sheet title={t('alerts.firing', { count: alerts.length })}>
      <ul className="divide-y divide-line">
        {alerts.slice(0, MAX_SHOWN).map(alert => {
          const { title, detail } = describe(alert)
          const Icon = alert.level === 'error' ? CircleAlert : TriangleAlert
          return (
            <li key={`${alert.rule_id} ${alert.subject}`} className="flex gap-3 px-4 py-2.5">
              <Icon
                size={16}
                aria-hidden
                className={alert.level === 'error' ? 'mt-0.5 shrink-0 text-bad' : 'mt-0.5 shrink-0 text-warn'}
              />
              <div className="min-w-0 grow">
                <p className="break-words">{title}</p>
                <p className="text-label break-words text-ink-2">{detail}</p>
                <p className="text-label text-ink-3">
                  {kindLabel(alert.kind)} · <Moment at={alert.since} />
                </p>
              </div>
            </li>
          )
        })}
      </ul>
      {alerts.length > MAX_SHOWN ? (
        <p className="border-t border-line px-4 py-2 text-ink-2">
          {t('alerts.more', { count: alerts.length - MAX_SHOWN })}
        </p>
      ) : null}
    </Sheet>
  )
}
