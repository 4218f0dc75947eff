import { Link, type LinkProps } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { isKeyRefusal } from '../../../../src/domain/channel-condition.ts'
import type { Attention } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { useSelf } from '../../api/self.ts'
import { Button, IconButton } from '../../look/button.tsx'
import { TimeLeft } from '../../look/cooldown.tsx'
import { count } from '../../look/format.ts'
import { CircleAlert, CircleCheck, Info, RotateCcw, TriangleAlert, X } from '../../look/icons.ts'
import { Sheet } from '../../look/page.tsx'
import { Part } from '../../look/states.tsx'
import { useAction } from '../../look/use-action.ts'
import { GatewayText } from '../../texts/gateway-text.tsx'
import { LinkedText } from '../usage/linked-text.tsx'

const MAX_ROWS = 8
const REFRESH_MS = 15_000
/** So many items of one kind share a row. */
const GROUP_FROM = 3

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

/** Kinds of which one item stands for all. */
const SINGLE = [
  'requests_failing',
  'model_single_channel',
  'model_unpriced',
  'suspense_open',
  'video_unrefunded',
  'public_without_tls',
  'untrusted_proxy',
] as const
type GroupKind = Exclude<Attention['kind'], (typeof SINGLE)[number]>
const isGrouped = (kind: Attention['kind']): kind is GroupKind =>
  !(SINGLE as readonly Attention['kind'][]).includes(kind)

/** The page to resolve it; undefined for settings that are read at startup. */
function linkOf({ kind, target, name }: Attention): LinkProps | undefined {
  const [what, id = ''] = target.split(':')
  if (what === 'setting') return undefined
  if (what === 'code') return { to: '/usage', search: { error_code: name } }
  if (what === 'channel') return { to: '/channels/$id', params: { id } }
  if (what === 'token') return { to: '/tokens/$id', params: { id } }
  if (what === 'models') return { to: kind === 'model_unpriced' ? '/prices' : '/models' }
  if (kind === 'model_unpriced') return { to: '/prices', search: { edit: name } }
  if (what === 'model') return { to: '/models', search: { tab: 'route', route: name } }
  if (what === 'video') return { to: '/videos', search: { unrefunded: true } }
  return { to: '/ledger' }
}

function useSentence(): (need: Attention) => string {
  const { t } = useTranslation()
  return ({ kind, name, count: number, detail }) => {
    if (kind === 'channel_cooling_down') {
      const status = Number.parseInt(detail, 10)
      if (isKeyRefusal(status)) return t('attention.channel_key_rejected', { name, status })
      if (status === 429) return t('attention.channel_rate_limited', { name, status })
      return t('attention.channel_failing', { name })
    }
    if (number < 2) return t(`attention.${kind}`, { name })
    if (kind === 'model_single_channel')
      return t('attention.models_single_channel', { figure: count(number) })
    if (kind === 'model_unpriced') return t('attention.models_unpriced', { figure: count(number) })
    return t(`attention.${kind}`, { name })
  }
}

/** When the cooldown ends, or that it has ended. */
function CooldownNote({ until }: { readonly until: number | null }) {
  const { t } = useTranslation()
  return (
    <span className="text-rest">
      {' · '}
      {until === null ? (
        t('status.trial')
      ) : (
        <>
          {t('status.cooling_down')}, <TimeLeft until={until} />
        </>
      )}
    </span>
  )
}

function NeedRow({ need, isInner = false }: { readonly need: Attention; readonly isInner?: boolean }) {
  const { t } = useTranslation()
  const sentence = useSentence()
  const self = useSelf()
  const dismiss = useAction('dismissAttention')
  const link = linkOf(need)
  const { id, level, kind, detail, until, names, is_dismissed } = need
  return (
    <li className={`flex items-center gap-3 py-1.5 pr-2 ${isInner ? 'pl-11' : 'pl-4'}`}>
      {isInner ? null : ICONS[level]}
      <span className="min-w-0 grow break-words" title={names.length > 0 ? names.join('\n') : undefined}>
        {sentence(need)}
        {kind === 'channel_cooling_down' ? <CooldownNote until={until} /> : null}
        {detail && !WITHOUT_DETAIL.has(kind) ? (
          <span className="line-clamp-2 text-label text-ink-3" title={detail}>
            {kind === 'requests_failing' ? (
              <LinkedText text={detail} ownerId={self.id} />
            ) : (
              <GatewayText text={detail} />
            )}
          </span>
        ) : null}
      </span>
      {link ? (
        <Link {...link} className="shrink-0 py-1">
          {t('attention.open')}
        </Link>
      ) : null}
      <IconButton
        icon={is_dismissed ? RotateCcw : X}
        label={is_dismissed ? t('attention.restore') : t('attention.dismiss')}
        disabled={dismiss.isBusy}
        onClick={() => void dismiss.run({ body: { item: id, is_dismissed: !is_dismissed } })}
      />
    </li>
  )
}

/** Several items of one kind in one row, which opens. */
function GroupRow({ kind, needs }: { readonly kind: GroupKind; readonly needs: readonly Attention[] }) {
  const { t } = useTranslation()
  return (
    <li>
      <details className="group">
        <summary className="flex min-h-11 cursor-pointer list-none items-center gap-3 px-4 py-1.5">
          {ICONS[needs[0]?.level ?? 'info']}
          <span className="min-w-0 grow">{t(`attention.several.${kind}`, { count: needs.length })}</span>
          <span className="shrink-0 pr-2 text-accent group-open:hidden">{t('attention.details')}</span>
          <span className="hidden shrink-0 pr-2 text-accent group-open:inline">{t('reveal.hide')}</span>
        </summary>
        <ul className="divide-y divide-line border-t border-line">
          {needs.map(need => (
            <NeedRow key={need.id} need={need} isInner />
          ))}
        </ul>
      </details>
    </li>
  )
}

type Row = Attention | { readonly kind: GroupKind; readonly needs: readonly Attention[] }

/** Rows in the order of their first item. */
function rowsOf(needs: readonly Attention[]): readonly Row[] {
  return [...Map.groupBy(needs, ({ kind }) => kind)].flatMap(([kind, ofKind]): readonly Row[] =>
    isGrouped(kind) && ofKind.length >= GROUP_FROM ? [{ kind, needs: ofKind }] : ofKind,
  )
}

export function AttentionList() {
  const { t } = useTranslation()
  const [isWhole, showWhole] = useState(false)
  const [showsDismissed, showDismissed] = useState(false)
  const result = useCall('attention', {}, { refetchMs: REFRESH_MS })
  if (!result.data)
    return result.isError ? (
      <Sheet title={t('attention.title')}>
        <Part result={result}>{null}</Part>
      </Sheet>
    ) : null
  const dismissed = result.data.filter(({ is_dismissed }) => is_dismissed)
  const rows = rowsOf(result.data.filter(({ is_dismissed }) => showsDismissed || !is_dismissed))
  const dismissedButton =
    dismissed.length > 0 ? (
      <Button isSmall kind="quiet" onClick={() => showDismissed(!showsDismissed)}>
        {showsDismissed
          ? t('attention.hide_dismissed')
          : t('attention.show_dismissed', { count: dismissed.length })}
      </Button>
    ) : null
  if (rows.length === 0)
    return (
      <p className="flex items-center gap-2 text-ink-2">
        <CircleCheck size={16} className="text-ok" aria-hidden /> {t('attention.all_clear')} {dismissedButton}
      </p>
    )
  return (
    <Sheet title={t('attention.title')} actions={dismissedButton}>
      <ul className="divide-y divide-line">
        {rows
          .slice(0, isWhole ? rows.length : MAX_ROWS)
          .map(row =>
            'needs' in row ? <GroupRow key={row.kind} {...row} /> : <NeedRow key={row.id} need={row} />,
          )}
      </ul>
      {rows.length > MAX_ROWS && !isWhole ? (
        <Button kind="quiet" className="m-2" onClick={() => showWhole(true)}>
          {t('attention.more', { count: rows.length - MAX_ROWS })}
        </Button>
      ) : null}
    </Sheet>
  )
}
