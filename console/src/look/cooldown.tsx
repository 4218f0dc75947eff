import { useTranslation } from 'react-i18next'
import { span } from './format.ts'
import { StatusBadge } from './status-badge.tsx'
import { useCountdown } from './use-countdown.ts'

/** The time until a cooldown ends; nothing when it has ended. */
export function TimeLeft({ until }: { readonly until: number | null }) {
  const secondsLeft = useCountdown((until ?? 0) * 1000)
  return secondsLeft > 0 ? span(secondsLeft * 1000) : null
}

/** The status of a channel or key after a failure, with the time left. */
export function CooldownBadge({ until }: { readonly until: number | null }) {
  const { t } = useTranslation()
  const secondsLeft = useCountdown((until ?? 0) * 1000)
  if (secondsLeft === 0)
    return (
      <span title={t('status.trial_help')}>
        <StatusBadge state="trial" />
      </span>
    )
  return (
    <span className="whitespace-nowrap">
      <StatusBadge state="cooling_down" />, {span(secondsLeft * 1000)}
    </span>
  )
}
