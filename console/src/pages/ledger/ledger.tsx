import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Suspense } from '../../api/contract.ts'
import { callQuery, useCall } from '../../api/query.ts'
import { useIsRoot } from '../../api/self.ts'
import { Button, buttonClasses } from '../../look/button.tsx'
import { Checkbox } from '../../look/field.tsx'
import { useFilters } from '../../look/filters.tsx'
import { count, cutMiddle, moment, moneyOfLedger } from '../../look/format.ts'
import { BookCheck, BookX, Download, RotateCw } from '../../look/icons.ts'
import { Moment } from '../../look/moment.tsx'
import { Page, Sheet } from '../../look/page.tsx'
import { Pager, useExistingPage } from '../../look/pager.tsx'
import { Facts } from '../../look/panel.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { Empty, ErrorCard, Loading, Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import type { Column } from '../../look/table-props.ts'
import { GatewayText } from '../../texts/gateway-text.tsx'
import { AccountEntries } from './account-entries.tsx'
import { ResolveCharge } from './resolve-charge.tsx'

/** The check's report as a text file. */
function proofOf({ ok, lines }: { ok: boolean; lines: readonly string[] }, atMs: number): string {
  const text = [new Date(atMs).toISOString(), ok ? 'OK' : 'NOT OK', ...lines, ''].join('\n')
  return `data:text/plain;charset=utf-8,${encodeURIComponent(text)}`
}

/** The result of the ledger check. */
function CheckResult() {
  const { t } = useTranslation()
  const check = useQuery({ ...callQuery('verifyLedger', {}), staleTime: 60_000 })
  const checkResult = check.data
  return (
    <Sheet
      title={t('ledger.check')}
      actions={
        <>
          {checkResult ? (
            <a
              download={`ledger-check-${check.dataUpdatedAt}.txt`}
              href={proofOf(checkResult, check.dataUpdatedAt)}
              className={buttonClasses('plain')}
            >
              <Download size={16} aria-hidden />
              {t('ledger.download_report')}
            </a>
          ) : null}
          <Button icon={RotateCw} isBusy={check.isFetching} onClick={() => void check.refetch()}>
            {t('ledger.run')}
          </Button>
        </>
      }
    >
      {check.error ? <ErrorCard error={check.error} onRetry={() => void check.refetch()} /> : null}
      {checkResult ? (
        <div className="flex flex-col gap-3 p-4">
          <p className="flex items-center gap-3 text-title font-semibold" role="status">
            {checkResult.ok ? (
              <BookCheck size={24} className="text-ok" aria-hidden />
            ) : (
              <BookX size={24} className="text-bad" aria-hidden />
            )}
            {checkResult.ok ? t('ledger.verified') : t('ledger.check_failed')}
          </p>
          <p className="text-label text-ink-3">
            {t('ledger.checked', { time: moment(Math.floor(check.dataUpdatedAt / 1000)) })}
          </p>
          <ul className="flex flex-col gap-1 font-mono text-code">
            {checkResult.lines.map(line => (
              <li key={line}>
                <GatewayText text={line} />
              </li>
            ))}
          </ul>
        </div>
      ) : check.isPending ? (
        <Loading lines={3} />
      ) : null}
    </Sheet>
  )
}

/** Leases, unresolved charges and journals: amounts that are not settled yet. */
function OpenItems() {
  const { t } = useTranslation()
  const result = useCall('ledgerHealth', {}, { refetchMs: 10_000 })
  const health = result.data
  return (
    <Sheet title={t('ledger.open_items')}>
      <Part result={result}>
        {health ? (
          <div className="p-4">
            <Facts
              facts={[
                [t('ledger.entries'), count(health.entries)],
                [t('ledger.leased'), moneyOfLedger(health.leased)],
                [
                  t('ledger.unresolved'),
                  `${count(health.suspense.open)} · ${moneyOfLedger(health.suspense.amount)}`,
                ],
                ...health.nodes.map(
                  ({ id, applied, leased }) =>
                    [
                      `${t('ledger.node')} ${cutMiddle(id)}`,
                      `${t('ledger.applied', { seq: count(applied) })} · ${moneyOfLedger(leased)}`,
                    ] as const,
                ),
              ]}
            />
          </div>
        ) : null}
      </Part>
    </Sheet>
  )
}

type Filters = { p?: number | undefined; all?: boolean | undefined }

/** Charges that the provider may have billed although the response was lost. */
function UnresolvedCharges() {
  const { t } = useTranslation()
  const isRoot = useIsRoot()
  const { pageSize } = usePreferences()
  const [{ p = 1, all = false }, setFilters] = useFilters<Filters>()
  const list = useCall('listSuspense', { query: { p, page_size: pageSize, open: all ? undefined : true } })
  useExistingPage(list, page => setFilters({ p: page }))
  const [closing, setClosing] = useState<Suspense>()
  const rows = list.data?.items ?? []
  const columns = useMemo<readonly Column<Suspense>[]>(
    () => [
      { id: 'time', header: t('usage.time'), place: 'note', cell: ({ time }) => <Moment at={time} /> },
      {
        id: 'reason',
        header: t('ledger.reason'),
        place: 'title',
        cell: ({ reason }) => <GatewayText text={reason} />,
      },
      {
        id: 'request',
        header: t('usage.request'),
        fromPx: 1100,
        cell: ({ request_id }) => (
          <Link to="/usage/$requestId" params={{ requestId: request_id }} className="font-mono text-code">
            {request_id}
          </Link>
        ),
      },
      {
        id: 'channel',
        header: t('usage.channel'),
        fromPx: 900,
        cell: ({ channel_id }) => (
          <Link to="/channels/$id" params={{ id: String(channel_id) }}>
            #{channel_id}
          </Link>
        ),
      },
      {
        id: 'amount',
        header: t('ledger.estimate'),
        isRight: true,
        place: 'figure',
        cell: ({ cost }) => moneyOfLedger(cost),
      },
      {
        id: 'state',
        header: t('channels.state'),
        place: 'state',
        cell: doubt =>
          doubt.is_open ? (
            <span className="text-warn">{t('ledger.open')}</span>
          ) : (
            <span title={doubt.closed_reason ?? ''}>
              {doubt.closed_as === 'charge' ? t('ledger.charged') : t('ledger.written_off')} ·{' '}
              {doubt.closed_by}
            </span>
          ),
      },
      ...(isRoot
        ? [
            {
              id: 'actions',
              header: t('common.actions'),
              isRight: true,
              place: 'action' as const,
              cell: (doubt: Suspense) =>
                doubt.is_open ? (
                  <Button isSmall onClick={() => setClosing(doubt)}>
                    {t('attention.resolve')}
                  </Button>
                ) : null,
            },
          ]
        : []),
    ],
    [t, isRoot],
  )
  return (
    <Sheet
      title={t('ledger.unresolved')}
      actions={
        <Checkbox
          label={t('ledger.include_resolved')}
          checked={all}
          onChange={event => setFilters({ all: event.target.checked || undefined })}
        />
      }
    >
      <Part result={list}>
        {rows.length > 0 ? (
          <>
            <DataTable
              label={t('ledger.unresolved')}
              columns={columns}
              rows={rows}
              idOf={row => String(row.id)}
              nameOf={row => row.request_id}
              isStale={list.isPlaceholderData}
            />
            <Pager page={p} total={list.data?.total ?? 0} onPage={page => setFilters({ p: page })} />
          </>
        ) : (
          <Empty title={t('ledger.no_unresolved')}>{t('ledger.unresolved_help')}</Empty>
        )}
      </Part>
      {closing ? <ResolveCharge doubt={closing} onClose={() => setClosing(undefined)} /> : null}
    </Sheet>
  )
}

export function Ledger() {
  const { t } = useTranslation()
  return (
    <Page title={t('nav.ledger')}>
      <CheckResult />
      <OpenItems />
      <UnresolvedCharges />
      <AccountEntries />
    </Page>
  )
}
