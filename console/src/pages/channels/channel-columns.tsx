import { Link } from '@tanstack/react-router'
import type { TFunction } from 'i18next'
import type { Channel, ChannelHealth, ChannelType } from '../../api/contract.ts'
import { moneyOfSpan, share } from '../../look/format.ts'
import { HourlyChart } from '../../look/hourly-chart.tsx'
import type { Column } from '../../look/table-props.ts'
import { ChannelMenu } from './channel-menu.tsx'
import { ChannelState } from './channel-state.tsx'
import { LastTest, TestButton } from './channel-test.tsx'
import { InlineNumber } from './inline-number.tsx'
import { ProviderMark } from './type-picker.tsx'

type ColumnsOptions = {
  readonly t: TFunction
  readonly byNumber: ReadonlyMap<number, ChannelType>
  readonly health: ReadonlyMap<number, ChannelHealth>
  readonly save: (body: { id: number; priority?: number; weight?: number }) => Promise<unknown>
}

const SHOWN_MODELS = 2

export function ModelNames({ models }: { readonly models: readonly string[] }) {
  const rest = models.length - SHOWN_MODELS
  return (
    <span title={models.slice(0, 50).join('\n')} className="block max-w-40 truncate">
      {models.slice(0, SHOWN_MODELS).join(', ') || '–'}
      {rest > 0 ? <span className="text-ink-3"> +{rest}</span> : null}
    </span>
  )
}

const usableKeys = ({ keys }: Channel) => `${keys.filter(({ status }) => status === 1).length}/${keys.length}`

export const channelColumns = ({ t, byNumber, health, save }: ColumnsOptions): readonly Column<Channel>[] => [
  {
    id: 'state',
    header: t('channels.state'),
    place: 'state',
    cell: channel => <ChannelState channel={channel} health={health.get(channel.id)} />,
  },
  {
    id: 'name',
    header: t('channels.name'),
    place: 'title',
    cell: channel => (
      <span className="flex max-w-48 min-w-0 items-center gap-2">
        <span title={byNumber.get(channel.type)?.name}>
          <ProviderMark name={byNumber.get(channel.type)?.name ?? ''} />
        </span>
        <span className="truncate font-medium" title={channel.name}>
          {channel.name}
        </span>
        {channel.tag ? (
          <Link
            to="/channels"
            search={{ tag: channel.tag }}
            className="inline-flex min-h-6 min-w-6 items-center rounded-control bg-sunken px-1.5 text-label text-ink-2 no-underline"
          >
            {channel.tag}
          </Link>
        ) : null}
      </span>
    ),
  },
  {
    id: 'provider',
    header: t('channels.provider'),
    fromPx: 1500,
    place: 'note',
    cell: ({ type }) => <span className="whitespace-nowrap">{byNumber.get(type)?.name ?? type}</span>,
  },
  {
    id: 'models',
    header: t('channels.models'),
    fromPx: 1280,
    cell: ({ models }) => <ModelNames models={models} />,
  },
  {
    id: 'priority',
    header: t('channels.priority'),
    isRight: true,
    fromPx: 900,
    cell: ({ id, priority }) => (
      <InlineNumber
        hint="p"
        label={t('channels.priority')}
        value={priority}
        save={value => save({ id, priority: value })}
      />
    ),
  },
  {
    id: 'weight',
    header: t('channels.weight'),
    isRight: true,
    fromPx: 900,
    cell: ({ id, weight }) => (
      <InlineNumber
        hint="w"
        label={t('channels.weight')}
        value={weight}
        save={value => save({ id, weight: value })}
      />
    ),
  },
  { id: 'keys', header: t('channels.keys'), isRight: true, fromPx: 1500, cell: usableKeys },
  {
    id: 'test',
    header: t('channels.test'),
    fromPx: 900,
    place: 'figure',
    cell: channel => (
      <span className="block max-w-32">
        <LastTest channel={channel} />
      </span>
    ),
  },
  {
    id: 'day',
    header: t('channels.last_day'),
    fromPx: 1280,
    cell: ({ id }) => {
      const channelHealth = health.get(id)
      if (!channelHealth) return '–'
      const { requests, failures, hours } = channelHealth
      return (
        <span className="flex items-center gap-2">
          <HourlyChart hours={hours} words={t('channels.last_day_words', { requests, failures })} />
          <span className="text-ink-2">{share(requests - failures, requests)}</span>
        </span>
      )
    },
  },
  {
    id: 'spent',
    header: t('channels.spend'),
    isRight: true,
    fromPx: 1100,
    cell: ({ used_quota }) => moneyOfSpan(used_quota),
  },
  {
    id: 'actions',
    header: t('common.actions'),
    isRight: true,
    place: 'action',
    cell: channel => (
      <span className="inline-flex items-center gap-1">
        <TestButton id={channel.id} name={channel.name} />
        <ChannelMenu channel={channel} />
      </span>
    ),
  },
]
