import { useTranslation } from 'react-i18next'
import { moment, momentInFull } from './format.ts'
import { usePreferences } from './preferences.ts'

/** A moment in short form, whole on hovering; `never` where there is none. */
export function Moment({ at }: { readonly at: number }) {
  const { t } = useTranslation()
  // Read, so that another zone is shown as soon as it is chosen.
  usePreferences()
  if (at <= 0) return <span className="text-ink-3">{t('common.never')}</span>
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={momentInFull(at)} className="whitespace-nowrap">
      {moment(at)}
    </time>
  )
}
