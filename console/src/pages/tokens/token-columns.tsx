import type { TFunction } from 'i18next'
import type { Token } from '../../api/contract.ts'
import { CopyIcon } from '../../look/copy.tsx'
import { fromNow, moneyOfSpan } from '../../look/format.ts'
import { Moment } from '../../look/moment.tsx'
import { QuotaBar } from '../../look/quota-bar.tsx'
import { firstCall } from '../../look/snippets.tsx'
import { StatusBadge } from '../../look/status-badge.tsx'
import type { Column } from '../../look/table-props.ts'
import { TokenMenu } from './token-menu.tsx'
import { lastUse, statusOf } from './token-state.ts'

export const tokenColumns = (t: TFunction, model: string): readonly Column<Token>[] => [
  {
    id: 'name',
    header: t('tokens.name'),
    place: 'title',
    cell: ({ name }) => <span className="block truncate font-medium">{name}</span>,
  },
  {
    id: 'state',
    header: t('tokens.state'),
    place: 'state',
    cell: token => <StatusBadge state={statusOf(token)} />,
  },
  {
    id: 'key',
    header: t('tokens.key'),
    fromPx: 1100,
    cell: ({ key }) => <code className="font-mono text-code whitespace-nowrap text-ink-2">{key}</code>,
  },
  {
    id: 'level',
    header: t('tokens.limit'),
    cell: ({ unlimited_quota, remain_quota, used_quota }) =>
      unlimited_quota ? (
        <span className="text-ink-2">{t('tokens.no_limit')}</span>
      ) : (
        <QuotaBar remaining={remain_quota} total={remain_quota + used_quota} />
      ),
  },
  {
    id: 'spent',
    header: t('tokens.spend'),
    isRight: true,
    place: 'figure',
    cell: ({ used_quota }) => moneyOfSpan(used_quota),
  },
  {
    id: 'models',
    header: t('tokens.models'),
    fromPx: 900,
    cell: ({ model_limits_enabled, models }) =>
      model_limits_enabled ? (
        <span title={models.slice(0, 50).join('\n')}>
          {t('tokens.some_models', { count: models.length })}
        </span>
      ) : (
        t('tokens.all_models')
      ),
  },
  {
    id: 'expires',
    header: t('tokens.expires'),
    fromPx: 1280,
    cell: ({ expired_time }) =>
      expired_time === -1 ? (
        <span className="text-ink-3">{t('common.never')}</span>
      ) : (
        <span title={new Date(expired_time * 1000).toISOString()}>{fromNow(expired_time)}</span>
      ),
  },
  {
    id: 'used',
    header: t('tokens.last_used'),
    fromPx: 900,
    place: 'note',
    cell: token => <Moment at={lastUse(token)} />,
  },
  {
    id: 'actions',
    header: t('common.actions'),
    isRight: true,
    place: 'action',
    cell: token => (
      <span className="inline-flex items-center">
        <CopyIcon
          hint="y"
          text={firstCall(token.models[0] ?? model)}
          label={t('tokens.copy_snippet', { name: token.name })}
        />
        <TokenMenu token={token} />
      </span>
    ),
  },
]
