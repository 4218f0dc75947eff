import type { TFunction } from 'i18next'
import type { Video } from '../../api/contract.ts'
import { cutMiddle, fromNow } from '../../look/format.ts'
import { Moment } from '../../look/moment.tsx'
import { Money } from '../../look/money.tsx'
import type { Column } from '../../look/table-props.ts'
import { Progress, VideoState } from './video-state.tsx'

/** Duration and frame size, where known. */
export const shapeOf = ({ seconds, size }: Pick<Video, 'seconds' | 'size'>) =>
  [seconds && `${seconds} s`, size].filter(Boolean).join(' · ') || '–'

const isFetchable = ({ status, expires_at }: Video) =>
  status === 'completed' && expires_at > Date.now() / 1000

export const videoColumns = (t: TFunction, isAdmin: boolean): readonly Column<Video>[] => [
  { id: 'state', header: t('videos.state_label'), place: 'state', cell: row => <VideoState video={row} /> },
  {
    id: 'time',
    header: t('videos.submitted'),
    place: 'note',
    cell: ({ created_at }) => <Moment at={created_at} />,
  },
  {
    id: 'model',
    header: t('videos.model'),
    place: 'title',
    cell: ({ model }) => <span className="block truncate font-mono text-code">{model}</span>,
  },
  {
    id: 'id',
    header: t('videos.id'),
    fromPx: 1280,
    cell: ({ id }) => (
      <span title={id} className="font-mono text-code">
        {cutMiddle(id, 10)}
      </span>
    ),
  },
  { id: 'progress', header: t('videos.progress'), cell: row => <Progress video={row} /> },
  { id: 'shape', header: t('videos.duration_size'), fromPx: 1100, cell: shapeOf },
  ...(isAdmin
    ? [
        {
          id: 'user',
          header: t('usage.token_user'),
          fromPx: 900,
          cell: ({ token_name, username }: Video) => (
            <span className="block truncate">
              {token_name || '–'}
              <span className="text-ink-3"> / {username}</span>
            </span>
          ),
        },
        {
          id: 'channel',
          header: t('videos.channel'),
          fromPx: 1280,
          cell: ({ channel, channel_name }: Video) => channel_name || (channel ? `#${channel}` : '–'),
        },
      ]
    : []),
  {
    id: 'expires',
    header: t('videos.expires'),
    fromPx: 1500,
    cell: row => (isFetchable(row) ? fromNow(row.expires_at) : '–'),
  },
  {
    id: 'refund',
    header: t('videos.refund.label'),
    fromPx: 1100,
    cell: ({ refund, is_refundable }) =>
      refund ? (
        <span className="text-ok">{t('videos.refund.refunded')}</span>
      ) : is_refundable ? (
        <span className="text-warn">{t('videos.refund.not_refunded')}</span>
      ) : (
        '–'
      ),
  },
  {
    id: 'cost',
    header: t('videos.cost'),
    isRight: true,
    place: 'figure',
    cell: ({ cost }) => <Money usd={cost} />,
  },
]
