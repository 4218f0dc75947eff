import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { CanaryItem } from '../../api/contract.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { useFilters } from '../../look/filters.tsx'
import { Plus } from '../../look/icons.ts'
import { Moment } from '../../look/moment.tsx'
import { Page, Sheet } from '../../look/page.tsx'
import { Pager, useExistingPage } from '../../look/pager.tsx'
import { Facts, Panel, Section } from '../../look/panel.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { Empty, Part } from '../../look/states.tsx'
import { StatusIcon, type StatusName } from '../../look/status-badge.tsx'
import { DataTable } from '../../look/table.tsx'
import type { Column } from '../../look/table-props.ts'
import { toast } from '../../look/toast.tsx'
import { useAction } from '../../look/use-action.ts'
import { GatewayText } from '../../texts/gateway-text.tsx'
import { FieldList } from '../history/change-list.tsx'
import { ComparisonTable, ShadowReport } from './comparison.tsx'
import { StartDialog } from './start-dialog.tsx'

const REFRESH_MS = 5_000

const ICONS = {
  running: 'enabled',
  paused: 'disabled',
  promoted: 'trial',
  dropped: 'disabled',
} as const satisfies Record<CanaryItem['state'], StatusName>

function CanaryState({ state }: Pick<CanaryItem, 'state'>) {
  const { t } = useTranslation()
  return (
    <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
      <StatusIcon state={ICONS[state]} />
      {t(`canaries.state.${state}`)}
    </span>
  )
}

/** Who takes part, as one text. */
function useParticipation(): (canary: CanaryItem) => string {
  const { t } = useTranslation()
  return ({ kind, share, split_by, token_ids }) => {
    if (kind === 'price') return t('canaries.never_charged')
    const who = token_ids === null ? t('canaries.all_tokens') : token_ids.map(id => `#${id}`).join(', ')
    return `${t(`canaries.of_${split_by}`, { share })}, ${who}`
  }
}

type Verb = 'promote' | 'drop'

function CanaryPanel({ id, onClose }: { readonly id: number; readonly onClose: () => void }) {
  const { t } = useTranslation()
  const participationOf = useParticipation()
  const [verb, setVerb] = useState<Verb>()
  const result = useCall('getCanary', { params: { id } }, { refetchMs: REFRESH_MS })
  const pause = useAction('pauseCanary')
  const resume = useAction('resumeCanary')
  const promote = useRouteMutation('promoteCanary')
  const drop = useRouteMutation('dropCanary')
  const { data } = result
  const isOpen = data?.ended_time === null
  const isRunning = data?.state === 'running'
  const confirm = async (action: Verb) => {
    const body = action === 'promote' && (data?.drift.length ?? 0) > 0 ? { force: true } : {}
    await (action === 'promote' ? promote : drop).mutateAsync({ params: { id }, body })
    toast(t(`canaries.${action}_done`, { name: data?.name ?? '' }))
  }
  return (
    <Panel title={t('canaries.title', { id })} onClose={onClose} isWide>
      <Part result={result}>
        {data ? (
          <>
            <Section title={`${t(`canaries.kinds.${data.kind}`)} ${data.name}`}>
              <Facts
                facts={[
                  [t('channels.state'), <CanaryState key="state" state={data.state} />],
                  [t('canaries.participation'), participationOf(data)],
                  [t('audit.time'), <Moment key="time" at={data.created_time} />],
                  [t('audit.actor'), data.author.username || '–'],
                  [t('canaries.note'), data.note || '–'],
                  ...(data.end_note
                    ? ([[t('canaries.end_note'), <GatewayText key="end" text={data.end_note} />]] as const)
                    : []),
                ]}
              />
              {data.drift.length > 0 ? (
                <p className="text-warn">{t('canaries.drift', { fields: data.drift.join(', ') })}</p>
              ) : null}
              {isOpen ? (
                <div className="flex flex-wrap gap-2">
                  <Button kind="primary" onClick={() => setVerb('promote')}>
                    {t('canaries.promote')}
                  </Button>
                  <Button onClick={() => void (isRunning ? pause : resume).run({ params: { id } })}>
                    {t(isRunning ? 'canaries.pause' : 'canaries.resume')}
                  </Button>
                  <Button onClick={() => setVerb('drop')}>{t('canaries.drop')}</Button>
                </div>
              ) : null}
            </Section>
            {data.comparison ? <ComparisonTable comparison={data.comparison} /> : null}
            {data.shadow ? <ShadowReport id={id} shadow={data.shadow} /> : null}
            <Section title={t('canaries.changes')}>
              <FieldList fields={data.fields} />
            </Section>
          </>
        ) : null}
      </Part>
      {verb && data ? (
        <Confirm
          title={t(`canaries.${verb}_title`, { name: data.name })}
          effect={
            verb === 'promote' && data.drift.length > 0
              ? t('canaries.promote_drift', { fields: data.drift.join(', ') })
              : t(`canaries.${verb}_effect`)
          }
          verb={t(`canaries.${verb}`)}
          kind={verb === 'promote' ? 'primary' : 'danger'}
          onClose={() => setVerb(undefined)}
          onConfirm={() => confirm(verb)}
        />
      ) : null}
    </Panel>
  )
}

/** Changes that are tried on a part of the requests, and shadow prices. */
export function Canaries() {
  const { t } = useTranslation()
  const { pageSize } = usePreferences()
  const participationOf = useParticipation()
  const [{ p = 1, canary }, setFilters] = useFilters<{
    p?: number | undefined
    canary?: number | undefined
  }>()
  const [isStarting, setStarting] = useState(false)
  const list = useCall('listCanaries', { query: { p, page_size: pageSize } })
  useExistingPage(list, page => setFilters({ p: page }))
  const rows = list.data?.items ?? []
  const columns = useMemo<readonly Column<CanaryItem>[]>(
    () => [
      {
        id: 'name',
        header: t('canaries.what'),
        place: 'title',
        cell: ({ kind, name }) => (
          <span className="block break-words md:truncate">
            {t(`canaries.kinds.${kind}`)} {name}
          </span>
        ),
      },
      {
        id: 'state',
        header: t('channels.state'),
        place: 'state',
        cell: ({ state }) => <CanaryState state={state} />,
      },
      { id: 'who', header: t('canaries.participation'), fromPx: 700, cell: participationOf },
      {
        id: 'note',
        header: t('canaries.note'),
        fromPx: 1_100,
        cell: ({ note }) => <span className="block truncate text-ink-2">{note || '–'}</span>,
      },
      { id: 'author', header: t('audit.actor'), fromPx: 900, cell: ({ author }) => author.username },
      {
        id: 'time',
        header: t('audit.time'),
        place: 'note',
        cell: ({ created_time }) => <Moment at={created_time} />,
      },
    ],
    [t, participationOf],
  )
  return (
    <Page
      title={t('nav.canaries')}
      actions={
        <Button kind="primary" onClick={() => setStarting(true)}>
          <Plus size={14} aria-hidden />
          {t('canaries.start')}
        </Button>
      }
    >
      <Sheet>
        <Part result={list}>
          {rows.length > 0 ? (
            <>
              <DataTable
                label={t('nav.canaries')}
                columns={columns}
                rows={rows}
                idOf={row => String(row.id)}
                nameOf={row => t('canaries.title', { id: row.id })}
                openId={canary === undefined ? undefined : String(canary)}
                isStale={list.isPlaceholderData}
                onOpen={row => setFilters({ p, canary: row.id })}
              />
              <Pager page={p} total={list.data?.total ?? 0} onPage={page => setFilters({ p: page })} />
            </>
          ) : (
            <Empty title={t('canaries.none')}>{t('canaries.none_help')}</Empty>
          )}
        </Part>
      </Sheet>
      {canary === undefined ? null : (
        <CanaryPanel key={canary} id={canary} onClose={() => setFilters({ p, canary: undefined })} />
      )}
      {isStarting ? <StartDialog onClose={() => setStarting(false)} /> : null}
    </Page>
  )
}
