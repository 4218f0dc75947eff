import { Link, type LinkProps } from '@tanstack/react-router'
import { CircleCheck, TriangleAlert } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { useIsAdmin, useSelf } from '../../api/self.ts'
import { Sheet } from '../../look/page.tsx'

type Need = { readonly id: string; readonly words: string; readonly verb: string; readonly link: LinkProps }

const MOST = 8
const WEEK_S = 604_800
const LOW = 0.2
const REFRESH_MS = 15_000

/** Channels the gateway stopped, and models in use that it must refuse. */
function useAdminNeeds(isAdmin: boolean): readonly Need[] | undefined {
  const { t } = useTranslation()
  const reading = { enabled: isAdmin, everyMs: REFRESH_MS }
  const stopped = useCall('listChannels', { query: { status: '3', page_size: MOST } }, reading)
  const pricing = useCall('pricing', {}, { enabled: isAdmin, staleMs: 60_000 })
  const suspense = useCall('listSuspense', { query: { open: true, page_size: 1 } }, reading)
  if (!isAdmin) return []
  if (!stopped.data || !pricing.data || !suspense.data) return undefined
  const unpriced = pricing.data.data.filter(model => model.unpriced)
  return [
    ...stopped.data.items.flatMap(channel =>
      'id' in channel
        ? {
            id: `channel-${channel.id}`,
            words: t('needs.stopped', { name: channel.name, reason: channel.status_reason }),
            verb: t('needs.open'),
            link: { to: '/channels/$id', params: { id: String(channel.id) } } as const,
          }
        : [],
    ),
    ...unpriced.map(model => ({
      id: `price-${model.model_name}`,
      words: t('needs.unpriced', { model: model.model_name }),
      verb: t('prices.set'),
      link: { to: '/prices', search: { edit: model.model_name } } as const,
    })),
    ...(suspense.data.total > 0
      ? [
          {
            id: 'suspense',
            words: t('needs.suspense', { count: suspense.data.total }),
            verb: t('needs.decide'),
            link: { to: '/ledger' } as const,
          },
        ]
      : []),
  ]
}

/** Tokens of one's own that end soon, by date or by level. */
function useTokenNeeds(): readonly Need[] | undefined {
  const { t } = useTranslation()
  const tokens = useCall('listTokens', { query: { page_size: 100 } }, { everyMs: REFRESH_MS })
  if (!tokens.data) return undefined
  const soon = Date.now() / 1000 + WEEK_S
  return tokens.data.items.flatMap(
    ({ id, name, status, unlimited_quota, remain_quota, used_quota, expired_time }) => {
      const link = { to: '/tokens/$id', params: { id: String(id) } } as const
      const need = (words: string) => ({ id: `token-${id}`, words, verb: t('needs.open'), link })
      if (status === 4) return need(t('needs.used_up', { name }))
      if (status !== 1) return []
      if (expired_time !== -1 && expired_time < soon) return need(t('needs.expiring', { name }))
      const isLow = !unlimited_quota && remain_quota < (remain_quota + used_quota) * LOW
      return isLow ? need(t('needs.low', { name })) : []
    },
  )
}

export function NeedsYou() {
  const { t } = useTranslation()
  const self = useSelf()
  const admin = useAdminNeeds(useIsAdmin())
  const tokens = useTokenNeeds()
  if (!admin || !tokens) return null
  const balance =
    !self.unlimited_quota && self.quota <= 0
      ? [{ id: 'balance', words: t('needs.balance'), verb: t('needs.open'), link: { to: '/me' } as const }]
      : []
  const needs = [...admin, ...balance, ...tokens]
  if (needs.length === 0)
    return (
      <p className="flex items-center gap-2 text-ink-2">
        <CircleCheck size={16} className="text-ok" aria-hidden /> {t('needs.nothing')}
      </p>
    )
  return (
    <Sheet title={t('needs.title')}>
      <ul className="divide-y divide-line">
        {needs.slice(0, MOST).map(({ id, words, verb, link }) => (
          <li key={id} className="flex items-center gap-3 px-4 py-2">
            <TriangleAlert size={16} className="shrink-0 text-warn" aria-hidden />
            <span className="min-w-0 grow break-words">{words}</span>
            <Link {...link} className="shrink-0 py-1">
              {verb}
            </Link>
          </li>
        ))}
      </ul>
      {needs.length > MOST ? (
        <p className="border-t border-line px-4 py-2 text-label text-ink-3">
          {t('needs.more', { count: needs.length - MOST })}
        </p>
      ) : null}
    </Sheet>
  )
}
