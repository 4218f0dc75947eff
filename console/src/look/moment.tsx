import { useTranslation } from 'react-i18next'
import { momentInFull, momentToSecond } from './format.ts'
import { usePreferences } from './preferences.ts'

/** A time in short form, with the full time as a tooltip, or "Never". */
export function Moment({ at }: { readonly at: number }) {
  const { t } = useTranslation()
  // Subscribes to the preferences, so that a new time zone shows immediately.
  usePreferences()
  if (at <= 0) return <span className="text-ink-3">{t('common.never')}</span>
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={momentInFull(at)} className="whitespace-nowrap">
      {momentToSecond(at)}
    </time>
  )
}
