import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { allPages } from '../../api/all-pages.ts'
import { call } from '../../api/client.ts'
import type { AuditItem } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { csvFile } from '../../look/csv.ts'
import { ExportButton } from '../../look/export-button.tsx'
import { TextInput } from '../../look/field.tsx'
import { FilterChoice, useFilters } from '../../look/filters.tsx'
import { X } from '../../look/icons.ts'
import { Moment } from '../../look/moment.tsx'
import { FilterBar, Page, Sheet } from '../../look/page.tsx'
import { Pager, useExistingPage } from '../../look/pager.tsx'
import { Facts, Panel, Section } from '../../look/panel.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { Empty, Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import type { Column } from '../../look/table-props.ts'
import { beginOf, RANGES, type RangeName, rangeOf } from '../usage/range.ts'
import { RangeChoice } from '../usage/range-choice.tsx'
import { changesIn } from './changes.ts'
import { sourceText } from './source.ts'

type Filters = {
  p?: number | undefined
  actor?: number | undefined
  action?: string | undefined
  target?: string | undefined
  seq?: number | undefined
  range?: string | undefined
  from?: number | undefined
  to?: number | undefined
}

/** Actions to filter by. */
const ACTIONS = [
  'user.login',
  'user.login_failed',
  'user.logout',
  'user.register',
  'user.create',
  'user.update',
  'user.password',
  'user.delete',
  'user.enable',
  'user.disable',
  'user.promote',
  'user.demote',
  'user.add_quota',
  'token.create',
  'token.update',
  'token.reveal',
  'token.delete',
  'access_token.create',
  'access_token.rotate',
  'access_token.delete',
  'access_token.revoke_all',
  'session.end',
  'session.end_others',
  'channel.create',
  'channel.update',
  'channel.keys',
  'channel.reveal',
  'channel.disable',
  'channel.recover',
  'channel.delete',
  'alias.create',
  'alias.update',
  'alias.delete',
  'price.create',
  'price.activate',
  'price.delete',
  'setting.update',
  'config.rollback',
  'video.refund',
  'video.delete',
  'suspense.charge',
  'suspense.write_off',
  'secret.rotate',
] as const

const EXPORTED = [
  'seq',
  'time',
  'actor_id',
  'actor_name',
  'via',
  'address',
  'request_id',
  'action',
  'target',
  'before',
  'after',
  'hash',
] as const
const MAX_EXPORTED = 10_000

/** Audit records as CSV, with ISO times and changes as JSON. */
const auditFile = (records: readonly AuditItem[]) =>
  csvFile(
    EXPORTED,
    records.map(record => ({
      ...record,
      time: new Date(record.time * 1000).toISOString(),
      before: record.before === null ? '' : JSON.stringify(record.before),
      after: record.after === null ? '' : JSON.stringify(record.after),
    })),
  )

/** The text for an action. Unknown actions show their code. */
function useActionText(): (action: string) => string {
  const { t, i18n } = useTranslation()
  return action => {
    const key = `audit.actions.${action.replace('.', '_')}`
    return i18n.exists(key) ? t(key as 'audit.actions.user_login') : action
  }
}

function RecordPanel({ record, onClose }: { readonly record: AuditItem; readonly onClose: () => void }) {
  const { t } = useTranslation()
  const actionText = useActionText()
  const changes = changesIn(record)
  return (
    <Panel title={actionText(record.action)} onClose={onClose}>
      <Section title={t('audit.record')}>
        <Facts
          facts={[
            [t('audit.time'), <Moment key="time" at={record.time} />],
            [
              t('audit.actor'),
              <Link key="actor" to="/audit" search={{ actor: record.actor_id }}>
                {record.actor_name || '–'} (#{record.actor_id})
              </Link>,
            ],
            [
              t('audit.action'),
              <code key="action" className="font-mono text-code">
                {record.action}
              </code>,
            ],
            [t('audit.source'), sourceText(t, record.via)],
            [t('audit.address'), record.address || '–'],
            [t('audit.target'), record.target],
            [
              t('usage.request_id'),
              <code key="id" className="font-mono text-code break-all">
                {record.request_id}
              </code>,
            ],
            [
              t('audit.hash'),
              <code key="hash" className="font-mono text-code break-all">
                {record.hash}
              </code>,
            ],
          ]}
        />
      </Section>
      <Section title={t('audit.changes')}>
        {changes.length === 0 ? <p className="text-ink-3">{t('audit.no_changes')}</p> : null}
        <dl className="flex flex-col gap-3 text-table">
          {changes.map(({ field, before, after }) => (
            <div key={field}>
              <dt className="text-ink-3">{field}</dt>
              <dd className="font-mono text-code break-all">
                {before === undefined ? null : <del className="text-bad">{before}</del>}
                {before !== undefined && after !== undefined ? ' → ' : null}
                {after === undefined ? null : <ins className="text-ok no-underline">{after}</ins>}
              </dd>
            </div>
          ))}
        </dl>
      </Section>
    </Panel>
  )
}

export function Audit() {
  const { t } = useTranslation()
  const { pageSize } = usePreferences()
  const actionText = useActionText()
  const [{ p = 1, actor, action, target, seq, ...time }, setFilters] = useFilters<Filters>()
  const range = rangeOf(time.range ?? 'all')
  const query = {
    actor_id: actor,
    action,
    target,
    start_timestamp: time.from ?? beginOf(range),
    end_timestamp: time.to,
  }
  const list = useCall('listAudit', { query: { p, page_size: pageSize, ...query } })
  useExistingPage(list, page => setFilters({ p: page }))
  const rows = list.data?.items ?? []
  const open = rows.find(row => row.seq === seq)
  const columns = useMemo<readonly Column<AuditItem>[]>(
    () => [
      { id: 'time', header: t('audit.time'), place: 'note', cell: ({ time }) => <Moment at={time} /> },
      { id: 'actor', header: t('audit.actor'), place: 'state', cell: ({ actor_name }) => actor_name },
      {
        id: 'action',
        header: t('audit.action'),
        place: 'title',
        cell: row => <span title={row.action}>{actionText(row.action)}</span>,
      },
      {
        id: 'target',
        header: t('audit.target'),
        place: 'figure',
        cell: row => <span className="font-mono text-code">{row.target}</span>,
      },
      {
        id: 'changes',
        header: t('audit.changes'),
        fromPx: 1100,
        cell: record => (
          <span className="block truncate text-ink-2">
            {changesIn(record)
              .map(({ field }) => field)
              .join(', ') || '–'}
          </span>
        ),
      },
      {
        id: 'via',
        header: t('audit.source'),
        fromPx: 1280,
        cell: ({ via }) => sourceText(t, via),
      },
      { id: 'address', header: t('audit.address'), fromPx: 1280, cell: ({ address }) => address },
    ],
    [t, actionText],
  )
  return (
    <Page
      title={t('nav.audit')}
      actions={
        <ExportButton
          name="audit.csv"
          load={async () =>
            auditFile(
              await allPages(paging => call('listAudit', { query: { ...paging, ...query } }), MAX_EXPORTED),
            )
          }
        />
      }
    >
      <Sheet>
        <FilterBar>
          <RangeChoice
            names={Object.keys(RANGES) as RangeName[]}
            range={time.from === undefined ? range : undefined}
            timeRange={
              time.from === undefined
                ? undefined
                : { from: time.from, to: (time.to ?? Math.floor(Date.now() / 1000)) + 1 }
            }
            onRange={name => setFilters({ range: name, from: undefined, to: undefined })}
            onTimeRange={({ from, to }) => setFilters({ range: undefined, from, to: to - 1 })}
          />
          <FilterChoice
            label={t('audit.action')}
            any={t('audit.any_action')}
            value={action}
            options={ACTIONS.map(each => [each as string, actionText(each)])}
            onChange={value => setFilters({ action: value })}
          />
          <form
            key={target}
            className="w-full sm:w-64"
            onSubmit={event => {
              event.preventDefault()
              const value = new FormData(event.currentTarget).get('target')
              setFilters({ target: String(value).trim() || undefined })
            }}
          >
            <TextInput
              name="target"
              data-page-filter
              aria-label={t('audit.target')}
              placeholder={t('audit.target_hint')}
              defaultValue={target ?? ''}
              className="font-mono"
            />
          </form>
          {actor ? (
            <Button onClick={() => setFilters({ actor: undefined })}>
              {t('audit.actor')}: {rows.find(row => row.actor_id === actor)?.actor_name ?? `#${actor}`}
              <X size={14} aria-hidden />
            </Button>
          ) : null}
          {actor || action || target ? (
            <Button onClick={() => setFilters({ actor: undefined, action: undefined, target: undefined })}>
              {t('common.clear_filters')}
            </Button>
          ) : null}
        </FilterBar>
        <Part result={list}>
          {rows.length > 0 ? (
            <>
              <DataTable
                label={t('nav.audit')}
                columns={columns}
                rows={rows}
                idOf={row => String(row.seq)}
                nameOf={row => `${row.action} ${row.target}`}
                openId={seq === undefined ? undefined : String(seq)}
                isStale={list.isPlaceholderData}
                onOpen={row => setFilters({ p, seq: row.seq })}
              />
              <Pager page={p} total={list.data?.total ?? 0} onPage={page => setFilters({ p: page })} />
            </>
          ) : (
            <Empty title={t('audit.none')} />
          )}
        </Part>
      </Sheet>
      {open ? <RecordPanel record={open} onClose={() => setFilters({ p, seq: undefined })} /> : null}
    </Page>
  )
}
