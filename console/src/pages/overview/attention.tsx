import { Link, type LinkProps } from '@tanstack/react-router'
import { CircleAlert, CircleCheck, Info, TriangleAlert } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Attention } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { count } from '../../look/format.ts'
import { Sheet } from '../../look/page.tsx'
import { Part } from '../../look/states.tsx'

import { GatewayText } from '../../texts/gateway-text.tsx'

const MAX_ROWS = 8
/** The API lists no more, so counts may be too low then. */
const MAX_LISTED = 50
const REFRESH_MS = 15_000

const ICONS = {
  error: <CircleAlert size={16} className="shrink-0 text-bad" aria-hidden />,
  warning: <TriangleAlert size={16} className="shrink-0 text-warn" aria-hidden />,
  info: <Info size={16} className="shrink-0 text-ink-3" aria-hidden />,
} as const

/** Kinds without further detail. */
const WITHOUT_DETAIL: ReadonlySet<Attention['kind']> = new Set([
  'model_unpriced',
  'model_single_channel',
  'suspense_open',
  'video_unrefunded',
])

/** The page to resolve it; undefined for settings that are read at startup. */
function linkOf({ kind, target, name }: Attention): LinkProps | undefined {
  const [what, id = ''] = target.split(':')
  if (what === 'setting') return undefined
  if (what === 'channel') return { to: '/channels/$id', params: { id } }
  if (what === 'token') return { to: '/tokens/$id', params: { id } }
  if (kind === 'model_unpriced') return { to: '/prices', search: { edit: name } }
  if (what === 'model') return { to: '/models', search: { tab: 'route', route: name } }
  if (what === 'video') return { to: '/videos', search: { unrefunded: true } }
  return { to: '/ledger' }
}

/** Models without a fallback share one row: a new gateway has one channel, and every model would have a row. */
function grouped(all: readonly Attention[]): { rows: readonly Attention[]; singles: readonly Attention[] } {
  const singles = all.filter(({ kind }) => kind === 'model_single_channel')
  return singles.length < 2
    ? { rows: all, singles: [] }
    : { rows: all.filter(({ kind }) => kind !== 'model_single_channel'), singles }
}

export function AttentionList() {
  const { t } = useTranslation()
  const [isWhole, showWhole] = useState(false)
  const result = useCall('attention', {}, { refetchMs: REFRESH_MS })
  if (!result.data)
    return result.isError ? (
      <Sheet title={t('attention.title')}>
        <Part result={result}>{null}</Part>
      </Sheet>
    ) : null
  const { rows, singles } = grouped(result.data)
  const countText = `${count(singles.length)}${result.data.length >= MAX_LISTED ? '+' : ''}`
  if (rows.length === 0 && singles.length === 0)
    return (
      <p className="flex items-center gap-2 text-ink-2">
        <CircleCheck size={16} className="text-ok" aria-hidden /> {t('attention.all_clear')}
      </p>
    )
  return (
    <Sheet title={t('attention.title')}>
      <ul className="divide-y divide-line">
        {rows.slice(0, isWhole ? rows.length : MAX_ROWS).map(need => {
          const link = linkOf(need)
          return (
            <li
              key={`${need.kind} ${need.target} ${need.detail}`}
              className="flex items-center gap-3 px-4 py-2"
            >
              {ICONS[need.level]}
              <span className="min-w-0 grow break-words">
                {t(`attention.${need.kind}`, { name: need.name })}
                {need.detail && !WITHOUT_DETAIL.has(need.kind) ? (
                  <span className="text-label text-ink-3">
                    {' '}
                    <GatewayText text={need.detail} />
                  </span>
                ) : null}
              </span>
              {link ? (
                <Link {...link} className="shrink-0 py-1">
                  {t('attention.open')}
                </Link>
              ) : null}
            </li>
          )
        })}
        {singles.length > 0 ? (
          <li className="flex items-center gap-3 px-4 py-2">
            {ICONS.info}
            <span className="min-w-0 grow" title={singles.map(({ name }) => name).join('\n')}>
              {t('attention.models_single_channel', { figure: countText })}
            </span>
            <Link to="/models" className="shrink-0 py-1">
              {t('attention.open')}
            </Link>
          </li>
        ) : null}
      </ul>
      {rows.length > MAX_ROWS && !isWhole ? (
        <Button kind="quiet" className="m-2" onClick={() => showWhole(true)}>
          {t('attention.more', { count: rows.length - MAX_ROWS })}
        </Button>
      ) : null}
    </Sheet>
  )
}
