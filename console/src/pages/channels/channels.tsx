import { Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { call } from '../../api/client.ts'
import type { Channel } from '../../api/contract.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Checkbox } from '../../look/field.tsx'
import { FilterChoice, SearchBox, useFilters } from '../../look/filters.tsx'
import { Plus } from '../../look/icons.ts'
import { ListSheet } from '../../look/list-sheet.tsx'
import { Page } from '../../look/page.tsx'
import { pressInRow, rowInFocus, usePageKeys } from '../../look/page-keys.ts'
import { usePreferences } from '../../look/preferences.ts'
import { useSelection } from '../../look/selection.ts'
import { Empty } from '../../look/states.tsx'
import { BulkBar } from './bulk-bar.tsx'
import { channelColumns } from './channel-columns.tsx'
import { useTypes } from './channel-types.ts'
import { TagGroups } from './tag-groups.tsx'
import { TypePicker } from './type-picker.tsx'
import { useChannelSwitch } from './use-channel-switch.ts'
import { useHealth } from './use-health.ts'
import { usePinnedOrder } from './use-pinned-order.ts'

export type ChannelFilters = {
  p?: number | undefined
  q?: string | undefined
  status?: string | undefined
  type?: number | undefined
  tag?: string | undefined
  model?: string | undefined
  sort?: string | undefined
  grouped?: boolean | undefined
}

/** The default is the highest priority first. */
const ORDERS = [
  { name: 'newest', by: 'id', direction: 'desc' },
  { name: 'name', by: 'name', direction: 'asc' },
  { name: 'slowest', by: 'response_time', direction: 'desc' },
  { name: 'tested', by: 'test_time', direction: 'asc' },
] as const

const STATUSES = ['enabled', 'disabled', '2', '3'] as const
const NO_FILTERS: Omit<ChannelFilters, 'p'> = {
  q: undefined,
  status: undefined,
  type: undefined,
  tag: undefined,
  model: undefined,
}
const isChannel = (item: object): item is Channel => 'id' in item

export function Channels() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { id: openId } = useParams({ strict: false })
  const { pageSize } = usePreferences()
  const [filters, setFilters] = useFilters<ChannelFilters>()
  const { p = 1, q, status, type, tag, model, sort, grouped } = filters
  const order = ORDERS.find(({ name }) => name === sort)
  const query = {
    p,
    page_size: pageSize,
    keyword: q,
    status,
    type,
    tag,
    model,
    sort_by: order?.by,
    sort_order: order?.direction,
    tag_mode: grouped,
  }
  const isFiltered = Boolean(q || status || type || tag || model)
  const list = useCall('searchChannels', { query }, { refetchMs: 15_000 })
  const update = useRouteMutation('updateChannel')
  const { byNumber } = useTypes()
  const health = useHealth()
  const items = list.data?.items ?? []
  const groups = items.flatMap(item => ('channels' in item ? [item] : []))
  const { rows, isMoved, resort } = usePinnedOrder(
    grouped ? groups.flatMap(({ channels }) => channels) : items.filter(isChannel),
    JSON.stringify(query),
  )
  const selection = useSelection({
    visible: rows,
    idOf: ({ id }) => String(id),
    // With groups, the total counts tags.
    total: grouped ? undefined : list.data?.total,
    read: async paging => {
      const { items, total } = await call('searchChannels', { query: { ...query, ...paging } })
      return { items: items.filter(isChannel), total }
    },
  })
  const save = update.mutateAsync
  const columns = channelColumns({ t, byNumber, health, save: body => save({ body }) })
  const turn = useChannelSwitch()
  usePageKeys({
    t: { words: t('test.verb'), act: () => pressInRow('t') },
    T: {
      words: t('keys.test_selection'),
      act: () => document.querySelector<HTMLElement>('[data-test-selection]')?.click(),
    },
    o: {
      words: t('keys.switch'),
      act: () => {
        const row = rowInFocus(rows, ({ id }) => String(id))
        if (row) void turn(row, row.status !== 1)
      },
    },
    p: { words: t('channels.priority'), act: () => pressInRow('p') },
    w: { words: t('channels.weight'), act: () => pressInRow('w') },
    e: {
      words: t('common.edit'),
      act: () => {
        const id = rowInFocus(rows, ({ id }) => String(id))?.id.toString() ?? openId
        if (id) void navigate({ to: '/channels/$id/edit', params: { id }, search: true })
      },
    },
  })
  const open = ({ id }: Channel) =>
    void navigate({ to: '/channels/$id', params: { id: String(id) }, search: true })
  const typeCounts = Object.entries(list.data?.type_counts ?? {})

  return (
    <Page
      title={t('nav.channels')}
      actions={
        <Button
          kind="primary"
          icon={Plus}
          data-create
          hint="c"
          onClick={() => void navigate({ to: '/channels/new', search: true })}
        >
          {t('channels.add')}
        </Button>
      }
    >
      <ListSheet
        label={t('nav.channels')}
        list={{ ...list, data: list.data && { items: rows, total: list.data.total } }}
        columns={columns}
        idOf={row => String(row.id)}
        nameOf={row => row.name}
        openId={openId}
        selection={selection}
        onOpen={open}
        {...(grouped
          ? {
              body: (
                <TagGroups
                  groups={groups}
                  columns={columns}
                  selection={selection}
                  openId={openId}
                  isStale={list.isPlaceholderData}
                  onOpen={open}
                />
              ),
            }
          : {})}
        page={p}
        onPage={page => setFilters({ p: page })}
        onClear={isFiltered ? () => setFilters(NO_FILTERS) : undefined}
        filters={
          <>
            <SearchBox label={t('channels.search')} value={q} onChange={value => setFilters({ q: value })} />
            <FilterChoice
              label={t('channels.state')}
              any={t('channels.any_state')}
              value={status}
              options={STATUSES.map(each => [each as string, t(`channels.status.${each}`)])}
              onChange={value => setFilters({ status: value })}
            />
            <FilterChoice
              label={t('channels.provider')}
              any={t('channels.any_provider')}
              value={type}
              options={typeCounts.map(([number, count]) => [
                Number(number),
                `${byNumber.get(Number(number))?.name ?? number} (${count})`,
              ])}
              onChange={value => setFilters({ type: value })}
            />
            <FilterChoice
              label={t('channels.order')}
              any={t('channels.by_priority')}
              value={sort}
              options={ORDERS.map(({ name }) => [name as string, t(`channels.by.${name}`)])}
              onChange={value => setFilters({ sort: value })}
            />
            <div className="flex self-center">
              <Checkbox
                label={t('channels.by_tag')}
                checked={grouped ?? false}
                onChange={event => setFilters({ grouped: event.target.checked || undefined })}
              />
            </div>
            {tag ? (
              <Button onClick={() => setFilters({ tag: undefined })}>
                {t('channels.clear_tag', { tag })}
              </Button>
            ) : null}
            {isMoved ? (
              <Button kind="quiet" onClick={resort}>
                {t('channels.priorities_changed')}
              </Button>
            ) : null}
          </>
        }
        none={
          <Empty title={t('channels.none')}>
            <p>{t('channels.none_help')}</p>
            <div className="w-full text-left">
              <TypePicker
                isShort
                onPick={picked => void navigate({ to: '/channels/new', search: { type: picked.type } })}
              />
            </div>
          </Empty>
        }
      />
      {selection.rows.length > 0 ? <BulkBar selection={selection} /> : null}
      <Outlet />
    </Page>
  )
}
