import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { UsageItem } from '../../api/contract.ts'
import { useExclusionReason } from '../../look/exclusion-reason.ts'
import { span } from '../../look/format.ts'
import { Section } from '../../look/panel.tsx'
import { StatusIcon } from '../../look/status-badge.tsx'
import { otherOf, type ReportedFailure } from './log-row.ts'
import { useChannelNames } from './use-channel-names.ts'

const isGood = (status: number | string) => typeof status === 'number' && status >= 200 && status < 400

function ProviderWords({ report }: { readonly report: ReportedFailure }) {
  const { t } = useTranslation()
  const { code, message, request_id, retry_after_s } = report
  const facts = [
    code,
    retry_after_s === undefined ? undefined : t('usage.provider_retry', { seconds: retry_after_s }),
    request_id === undefined ? undefined : t('usage.provider_request', { id: request_id }),
  ].filter(fact => fact !== undefined)
  return (
    <p className="col-span-2 break-words text-label text-ink-2">
      {message ? <q>{message}</q> : null}
      {facts.length > 0 ? <span className="block text-ink-3">{facts.join(' · ')}</span> : null}
    </p>
  )
}

/** A bar per attempt on a common time axis. */
export function Attempts({ row }: { readonly row: UsageItem }) {
  const { t } = useTranslation()
  const why = useExclusionReason()
  const { trace } = otherOf(row)
  const names = useChannelNames()
  const attempts = trace?.attempts ?? [{ channel: row.channel, status: 200, ms: row.use_time_ms }]
  const whole = Math.max(
    1,
    attempts.reduce((sum, { ms }) => sum + ms, 0),
  )
  const passedOver = trace?.passed_over ?? []
  const nameOf = (id: number) => names.get(id) ?? `#${id}`
  let elapsedMs = 0
  return (
    <Section title={t('usage.attempts_title')}>
      <ol className="flex flex-col gap-2">
        {attempts.map(({ channel, status, ms, provider, sent_model }, index) => {
          const from = elapsedMs
          elapsedMs += ms
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: attempts are known by their order
            <li key={index} className="grid grid-cols-[1fr_auto] items-center gap-x-3 text-table">
              <span className="flex min-w-0 items-center gap-2">
                <StatusIcon state={isGood(status) ? 'enabled' : 'auto_disabled'} />
                <Link to="/channels/$id" params={{ id: String(channel) }} className="truncate">
                  {nameOf(channel)}
                </Link>
                {sent_model ? (
                  <span className="truncate font-mono text-code text-ink-2">→ {sent_model}</span>
                ) : null}
                <span className={isGood(status) ? 'text-ok' : 'text-bad'}>{status}</span>
              </span>
              <span>{span(ms)}</span>
              <svg
                viewBox="0 0 100 6"
                preserveAspectRatio="none"
                className="col-span-2 h-2 w-full"
                aria-hidden="true"
              >
                <rect width="100" height="6" className="fill-sunken" />
                <rect
                  x={(from / whole) * 100}
                  width={Math.max(0.5, (ms / whole) * 100)}
                  height="6"
                  className={isGood(status) ? 'fill-accent' : 'fill-bad'}
                />
              </svg>
              {provider ? <ProviderWords report={provider} /> : null}
            </li>
          )
        })}
      </ol>
      {passedOver.length > 0 ? (
        <ul className="text-label text-ink-3">
          {passedOver.map((each, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a list that is never changed
            <li key={index}>
              {t('route.excluded', {
                channel: nameOf(each.channelId ?? each.channel_id ?? 0),
                reason: why(each.reason ?? ''),
              })}
            </li>
          ))}
        </ul>
      ) : null}
    </Section>
  )
}
