import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { RevisionItem } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { useIsRoot } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { useFilters } from '../../look/filters.tsx'
import { Undo2 } from '../../look/icons.ts'
import { Moment } from '../../look/moment.tsx'
import { Page, Sheet } from '../../look/page.tsx'
import { Pager, useExistingPage } from '../../look/pager.tsx'
import { Facts, Panel, Section } from '../../look/panel.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { Empty, Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import type { Column } from '../../look/table-props.ts'
import { useGatewayText } from '../../texts/gateway-text.tsx'
import { sourceText } from '../audit/source.ts'
import { ChangeList, useObjectLabel } from './change-list.tsx'
import { RollbackDialog } from './rollback-dialog.tsx'

const MAX_NAMED = 3

function RevisionPanel({ revision, onClose }: { readonly revision: number; readonly onClose: () => void }) {
  const { t } = useTranslation()
  const gatewayText = useGatewayText()
  const isRoot = useIsRoot()
  const [isRollingBack, setRollingBack] = useState(false)
  const result = useCall('getConfigRevision', { params: { revision } })
  const { data } = result
  return (
    <Panel title={t('history.title', { revision })} onClose={onClose}>
      <Part result={result}>
        {data ? (
          <>
            <Section title={t('history.revision')}>
              <Facts
                facts={[
                  [t('audit.time'), <Moment key="time" at={data.time} />],
                  [t('audit.actor'), data.author.username || '–'],
                  [t('audit.source'), sourceText(t, data.via)],
                  [t('history.reason'), gatewayText(data.reason) || '–'],
                ]}
              />
              {isRoot ? (
                <div>
                  <Button onClick={() => setRollingBack(true)}>
                    <Undo2 size={14} aria-hidden />
                    {t('history.rollback')}
                  </Button>
                </div>
              ) : null}
            </Section>
            <Section title={t('audit.changes')}>
              <ChangeList changes={data.changes} />
              {data.change_count > data.changes.length ? (
                <p className="text-ink-3">
                  {t('history.more', { count: data.change_count - data.changes.length })}
                </p>
              ) : null}
            </Section>
          </>
        ) : null}
      </Part>
      {isRollingBack ? <RollbackDialog revision={revision} onClose={() => setRollingBack(false)} /> : null}
    </Panel>
  )
}

/** The revisions of the configuration. */
export function ConfigHistory() {
  const { t } = useTranslation()
  const gatewayText = useGatewayText()
  const { pageSize } = usePreferences()
  const labelOf = useObjectLabel()
  const [{ p = 1, revision }, setFilters] = useFilters<{
    p?: number | undefined
    revision?: number | undefined
  }>()
  const list = useCall('listConfigRevisions', { query: { p, page_size: pageSize } })
  useExistingPage(list, page => setFilters({ p: page }))
  const rows = list.data?.items ?? []
  const columns = useMemo<readonly Column<RevisionItem>[]>(
    () => [
      {
        id: 'revision',
        header: t('history.revision'),
        place: 'figure',
        cell: row => <span className="font-mono text-code">{row.revision}</span>,
      },
      { id: 'time', header: t('audit.time'), place: 'note', cell: ({ time }) => <Moment at={time} /> },
      { id: 'author', header: t('audit.actor'), place: 'state', cell: ({ author }) => author.username },
      {
        id: 'changes',
        header: t('audit.changes'),
        place: 'title',
        cell: ({ changes, change_count }) => (
          <span className="block break-words md:truncate">
            {[
              ...changes.slice(0, MAX_NAMED).map(labelOf),
              ...(change_count > MAX_NAMED ? [t('history.more', { count: change_count - MAX_NAMED })] : []),
            ].join(', ')}
          </span>
        ),
      },
      {
        id: 'reason',
        header: t('history.reason'),
        fromPx: 1100,
        cell: ({ reason }) => <span className="block truncate text-ink-2">{gatewayText(reason) || '–'}</span>,
      },
      { id: 'via', header: t('audit.source'), fromPx: 1280, cell: ({ via }) => sourceText(t, via) },
    ],
    [t, labelOf, gatewayText],
  )
  return (
    <Page title={t('nav.history')}>
      <Sheet>
        <Part result={list}>
          {rows.length > 0 ? (
            <>
              <DataTable
                label={t('nav.history')}
                columns={columns}
                rows={rows}
                idOf={row => String(row.revision)}
                nameOf={row => t('history.title', { revision: row.revision })}
                openId={revision === undefined ? undefined : String(revision)}
                isStale={list.isPlaceholderData}
                onOpen={row => setFilters({ p, revision: row.revision })}
              />
              <Pager page={p} total={list.data?.total ?? 0} onPage={page => setFilters({ p: page })} />
            </>
          ) : (
            <Empty title={t('history.none')} />
          )}
        </Part>
      </Sheet>
      {revision === undefined ? null : (
        <RevisionPanel
          key={revision}
          revision={revision}
          onClose={() => setFilters({ p, revision: undefined })}
        />
      )}
    </Page>
  )
}
