import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { DELIVERY_STATUSES, type DeliveryStatus } from '../../../../src/domain/alert.ts'
import type { AlertDeliveryItem } from '../../api/contract.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { FilterChoice, useFilters } from '../../look/filters.tsx'
import { Moment } from '../../look/moment.tsx'
import { FilterBar, Sheet } from '../../look/page.tsx'
import { Pager, useExistingPage } from '../../look/pager.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { Empty, Part, useErrorText } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import type { Column } from '../../look/table-props.ts'
import { toast } from '../../look/toast.tsx'
import { GatewayText } from '../../texts/gateway-text.tsx'
import type { AlertFilters } from './alert-filters.ts'
import { useAlertTexts } from './alert-texts.ts'

const REFETCH_MS = 5_000
const TONES = { pending: 'text-ink-2', sent: 'text-ok', dead: 'text-bad' } as const

function RetryButton({ id }: { readonly id: number }) {
  const { t } = useTranslation()
  const words = useErrorText()
  const retry = useRouteMutation('retryAlertDelivery')
  return (
    <Button
      isSmall
      isBusy={retry.isPending}
      aria-label={t('alerts.retry_delivery', { id })}
      onClick={() =>
        retry.mutate(
          { params: { id } },
          { onSuccess: () => toast(t('alerts.retried')), onError: error => toast(words(error)) },
        )
      }
    >
      {t('alerts.retry')}
    </Button>
  )
}

/** Messages to targets; dead ones can be retried. */
export function Deliveries() {
  const { t } = useTranslation()
  const { describe } = useAlertTexts()
  const { pageSize } = usePreferences()
  const [{ p = 1, status }, setFilters] = useFilters<AlertFilters>()
  const chosen = DELIVERY_STATUSES.find(name => name === status)
  const list = useCall(
    'listAlertDeliveries',
    { query: { p, page_size: pageSize, status: chosen } },
    { refetchMs: REFETCH_MS },
  )
  useExistingPage(list, page => setFilters({ p: page }))
  const rows = list.data?.items ?? []
  const columns = useMemo<readonly Column<AlertDeliveryItem>[]>(
    () => [
      {
        id: 'time',
        header: t('alerts.time'),
        place: 'note',
        cell: ({ created_time }) => <Moment at={created_time} />,
      },
      {
        id: 'content',
        header: t('alerts.content'),
        place: 'title',
        cell: ({ alerts, omitted }) => {
          const [first] = alerts
          const more = alerts.length - 1 + omitted
          return (
            <span className="break-words">
              {first ? describe(first).title : '–'}
              {more > 0 ? <span className="text-ink-3"> {t('alerts.more', { count: more })}</span> : null}
            </span>
          )
        },
      },
      {
        id: 'target',
        header: t('alerts.target'),
        place: 'figure',
        cell: ({ target }) => target,
      },
      {
        id: 'status',
        header: t('channels.state'),
        place: 'state',
        cell: ({ status: is }) => <span className={TONES[is]}>{t(`alerts.delivery.${is}`)}</span>,
      },
      {
        id: 'attempts',
        header: t('alerts.attempts'),
        isRight: true,
        fromPx: 900,
        cell: ({ attempts }) => attempts,
      },
      {
        id: 'error',
        header: t('alerts.last_error'),
        place: 'note',
        fromPx: 1_100,
        cell: ({ last_error }) => (
          <span className="block max-w-96 text-label break-words text-ink-2">
            {last_error ? <GatewayText text={last_error} /> : '–'}
          </span>
        ),
      },
      {
        id: 'actions',
        header: t('common.actions'),
        isRight: true,
        place: 'action',
        cell: ({ id, status: is }) => (is === 'dead' ? <RetryButton id={id} /> : null),
      },
    ],
    [t, describe],
  )
  return (
    <Sheet>
      <FilterBar>
        <FilterChoice<DeliveryStatus>
          label={t('channels.state')}
          any={t('alerts.any_status')}
          value={chosen}
          options={DELIVERY_STATUSES.map(name => [name, t(`alerts.delivery.${name}`)] as const)}
          onChange={value => setFilters({ status: value })}
        />
      </FilterBar>
      <Part result={list}>
        {rows.length > 0 ? (
          <>
            <DataTable
              label={t('alerts.deliveries')}
              columns={columns}
              rows={rows}
              idOf={row => String(row.id)}
              nameOf={row => row.title}
              isStale={list.isPlaceholderData}
            />
            <Pager page={p} total={list.data?.total ?? 0} onPage={page => setFilters({ p: page })} />
          </>
        ) : (
          <Empty title={chosen ? t('common.nothing_matches') : t('alerts.no_deliveries')}>
            {t('alerts.deliveries_help')}
          </Empty>
        )}
      </Part>
    </Sheet>
  )
}
