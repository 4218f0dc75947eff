import type { TFunction } from 'i18next'
import type { LogRow } from '../../api/contract.ts'
import { span, tokens } from '../../look/format.ts'
import { Moment } from '../../look/moment.tsx'
import { Money } from '../../look/money.tsx'
import type { Column } from '../../look/table.tsx'
import { isFailed, isRequest, otherOf } from './log-row.ts'
import { RowState } from './row-state.tsx'

export const usageColumns = (t: TFunction, isAdmin: boolean): readonly Column<LogRow>[] => [
  { id: 'state', header: t('usage.state'), place: 'state', cell: row => <RowState row={row} /> },
  {
    id: 'time',
    header: t('usage.time'),
    place: 'note',
    cell: ({ created_at }) => <Moment at={created_at} />,
  },
  {
    id: 'model',
    header: t('usage.model'),
    place: 'title',
    cell: row => {
      const answered = otherOf(row).upstream_model_name
      return isRequest(row) ? (
        <span className="block truncate font-mono text-code">
          {row.model_name}
          {answered ? <span className="text-ink-3"> → {answered}</span> : null}
        </span>
      ) : (
        <span className="block truncate">{row.content}</span>
      )
    },
  },
  ...(isAdmin
    ? [
        {
          id: 'channel',
          header: t('usage.channel'),
          fromPx: 1100,
          cell: (row: LogRow) => {
            const attempts = otherOf(row).trace?.attempts?.length ?? 1
            return (
              <span className="block truncate">
                {row.channel_name || (row.channel ? `#${row.channel}` : '–')}
                {attempts > 1 ? (
                  <span className="text-warn"> {t('usage.attempts', { count: attempts })}</span>
                ) : null}
              </span>
            )
          },
        },
      ]
    : []),
  {
    id: 'token',
    header: isAdmin ? t('usage.token_user') : t('usage.token'),
    fromPx: 900,
    cell: ({ token_name, username }) => (
      <span className="block truncate">
        {token_name || '–'}
        {isAdmin ? <span className="text-ink-3"> / {username}</span> : null}
      </span>
    ),
  },
  {
    id: 'first',
    header: t('usage.first'),
    isRight: true,
    fromPx: 1280,
    cell: row => span(otherOf(row).frt),
  },
  {
    id: 'total',
    header: t('usage.total'),
    isRight: true,
    cell: row => (isRequest(row) ? span(row.use_time_ms) : '–'),
  },
  {
    id: 'tokens',
    header: t('usage.tokens'),
    isRight: true,
    fromPx: 900,
    cell: row =>
      isRequest(row) ? (
        <span title={`${row.prompt_tokens} / ${row.completion_tokens}`}>
          {tokens(row.prompt_tokens)} <span className="text-ink-3">/</span> {tokens(row.completion_tokens)}
        </span>
      ) : (
        '–'
      ),
  },
  {
    id: 'cost',
    header: t('usage.cost'),
    isRight: true,
    place: 'figure',
    cell: row =>
      isFailed(row) && Number(row.cost) === 0 ? (
        <span className="text-ink-3">–</span>
      ) : (
        <Money usd={row.cost} />
      ),
  },
]
