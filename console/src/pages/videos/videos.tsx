import { Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { FilterChoice, SearchBox, useFilters } from '../../look/filters.tsx'
import { ListSheet } from '../../look/list-sheet.tsx'
import { Page } from '../../look/page.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { CallSnippets } from '../../look/snippets.tsx'
import { Empty } from '../../look/states.tsx'
import { beginOf, isRange, RANGES, type RangeName } from '../usage/range.ts'
import { videoColumns } from './video-columns.tsx'
import { hasEnded } from './video-state.tsx'

type Filters = {
  p?: number | undefined
  q?: string | undefined
  range?: string | undefined
  status?: string | undefined
  user?: number | undefined
  channel?: number | undefined
  unrefunded?: boolean | undefined
}

const NO_FILTERS: Omit<Filters, 'p'> = {
  q: undefined,
  range: undefined,
  status: undefined,
  user: undefined,
  channel: undefined,
  unrefunded: undefined,
}
const STATES = ['queued', 'processing', 'completed', 'failed'] as const
const LOOK_MS = 3_000
const SPANS = (Object.keys(RANGES) as RangeName[]).filter(name => name !== 'all')
/** An example with a common model. */
const EXAMPLE = { model: 'sora-2', prompt: 'A calm lake at dawn', seconds: '8' }

export function Videos() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const isAdmin = useIsAdmin()
  const { id: openId } = useParams({ strict: false })
  const { pageSize } = usePreferences()
  const [filters, setFilters] = useFilters<Filters>()
  const { p = 1, q, range, status, user, channel, unrefunded } = filters
  const query = {
    p,
    page_size: pageSize,
    model: q ? `%${q}%` : undefined,
    status,
    start_timestamp: isRange(range) ? beginOf(range) : undefined,
    user_id: user,
    channel,
    unrefunded,
  }
  // Poll until all jobs have ended.
  const list = useCall(
    'listVideos',
    { query },
    { refetchMs: ({ items }) => (items.every(hasEnded) ? false : LOOK_MS) },
  )
  const columns = useMemo(() => videoColumns(t, isAdmin), [t, isAdmin])
  const isFiltered = Boolean(q || range || status || user || channel || unrefunded)
  const open = (id: string) => void navigate({ to: '/videos/$id', params: { id }, search: true })
  return (
    <Page title={t('nav.videos')}>
      <ListSheet
        label={t('nav.videos')}
        list={list}
        columns={columns}
        idOf={row => row.id}
        nameOf={row => row.id}
        openId={openId}
        onOpen={row => open(row.id)}
        page={p}
        onPage={page => setFilters({ p: page })}
        onClear={isFiltered ? () => setFilters(NO_FILTERS) : undefined}
        filters={
          <>
            <SearchBox
              label={t('videos.search')}
              value={q}
              onChange={value => (value?.startsWith('video_') ? open(value) : setFilters({ q: value }))}
            />
            <FilterChoice
              label={t('usage.range')}
              any={t('range.all')}
              value={range}
              options={SPANS.map(name => [name as string, t(`range.${name}`)])}
              onChange={value => setFilters({ range: value })}
            />
            <FilterChoice
              label={t('videos.state_label')}
              any={t('videos.any_state')}
              value={status}
              options={STATES.map(name => [name as string, t(`videos.state.${name}`)])}
              onChange={value => setFilters({ status: value })}
            />
            <Button
              aria-pressed={unrefunded ?? false}
              kind={unrefunded ? 'primary' : 'plain'}
              onClick={() => setFilters({ unrefunded: unrefunded ? undefined : true })}
            >
              {t('videos.unrefunded')}
            </Button>
            {user ? (
              <Button onClick={() => setFilters({ user: undefined })}>
                {t('videos.drop_user', { id: user })}
              </Button>
            ) : null}
            {channel ? (
              <Button onClick={() => setFilters({ channel: undefined })}>
                {t('videos.drop_channel', { id: channel })}
              </Button>
            ) : null}
          </>
        }
        none={
          <Empty title={t('videos.none')}>
            <p>{t('videos.none_help')}</p>
            <Button
              kind="primary"
              onClick={() => void navigate({ to: '/playground', search: { tab: 'video' } })}
            >
              {t('videos.try')}
            </Button>
            <div className="w-full text-left">
              <CallSnippets path="/v1/videos" body={EXAMPLE} />
            </div>
          </Empty>
        }
      />
      <Outlet />
    </Page>
  )
}
