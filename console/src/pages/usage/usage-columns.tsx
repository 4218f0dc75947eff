import type { TFunction } from 'i18next'
import type { UsageItem } from '../../api/contract.ts'
import type { OptionalColumn } from '../../look/column-choice.tsx'
import { span, tokens } from '../../look/format.ts'
import { Moment } from '../../look/moment.tsx'
import { Money } from '../../look/money.tsx'
import { isFailed, isRequest, otherOf } from './log-row.ts'
import { RowState } from './row-state.tsx'

const code = (text: string | undefined) =>
  text ? <span className="block truncate font-mono text-code">{text}</span> : '–'

/** Output tokens per second after the first token. */
function speedOf(row: UsageItem): string {
  const ms = row.use_time_ms - (otherOf(row).frt ?? 0)
  return row.completion_tokens > 0 && ms > 0
    ? `${(row.completion_tokens / (ms / 1000)).toFixed(1)}\u00a0tok/s`
    : '–'
}

const sourceText = (t: TFunction, source: string | undefined) =>
  source === undefined ? '–' : t(`usage.source.${source as 'zero'}`, { defaultValue: source })

/** Exported fields of each column. */
const EXPORTED: Readonly<Record<string, readonly string[]>> = {
  state: ['type', 'error_code'],
  time: ['created_at'],
  model: ['model_name', 'upstream_model'],
  channel: ['channel', 'channel_name', 'attempts'],
  token: ['token_name', 'username'],
  first: ['first_ms'],
  total: ['use_time_ms'],
  tokens: ['prompt_tokens', 'completion_tokens'],
  cost: ['cost'],
  cached: ['cache_tokens'],
  reasoning: ['reasoning_tokens'],
  speed: ['completion_tokens', 'use_time_ms', 'first_ms'],
  stream: ['is_stream'],
  source: ['source'],
  price: ['price'],
  address: ['ip'],
  request: ['request_id'],
  upstream: ['upstream_request_id'],
  error: ['error_code', 'content'],
}

/** The visible columns as the export's parameter. */
export const exportedBy = (columns: readonly { readonly id: string }[]): string =>
  [...new Set(columns.flatMap(({ id }) => EXPORTED[id] ?? []))].join(',')

/** Default and optional columns. */
export const usageColumns = (t: TFunction, isAdmin: boolean): readonly OptionalColumn<UsageItem>[] => [
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
      const { upstream_model_name: answered, requested_model } = otherOf(row)
      return isRequest(row) ? (
        <>
          <span className="block truncate font-mono text-code">
            {row.model_name || <span className="text-ink-3">{requested_model ?? '–'}</span>}
            {answered ? <span className="text-ink-3"> → {answered}</span> : null}
          </span>
          {/* Beside an open panel there is no room for the columns of channel and token. */}
          <span className="hidden truncate text-label text-ink-3 @max-[640px]:block">
            {[row.channel_name, row.token_name].filter(Boolean).join(' · ')}
          </span>
        </>
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
          cell: (row: UsageItem) => {
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
    header: t('usage.ttft'),
    isRight: true,
    fromPx: 1280,
    cell: row => span(otherOf(row).frt),
  },
  {
    id: 'total',
    header: t('usage.latency'),
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
  {
    id: 'cached',
    header: t('usage.line.cachedInput'),
    isExtra: true,
    isRight: true,
    cell: row => tokens(otherOf(row).cache_tokens ?? 0),
  },
  {
    id: 'reasoning',
    header: t('usage.line.reasoning'),
    isExtra: true,
    isRight: true,
    cell: row => tokens(otherOf(row).reasoning_tokens ?? 0),
  },
  { id: 'speed', header: t('usage.speed'), isExtra: true, isRight: true, cell: speedOf },
  {
    id: 'stream',
    header: t('usage.stream'),
    isExtra: true,
    cell: ({ is_stream }) => (is_stream ? t('common.yes') : t('common.no')),
  },
  {
    id: 'source',
    header: t('usage.counted_by'),
    isExtra: true,
    cell: row => sourceText(t, otherOf(row).source),
  },
  {
    id: 'price',
    header: t('usage.price'),
    isExtra: true,
    cell: row => otherOf(row).price ?? '–',
  },
  { id: 'address', header: t('usage.address'), isExtra: true, cell: ({ ip }) => code(ip) },
  { id: 'request', header: t('usage.request_id'), isExtra: true, cell: ({ request_id }) => code(request_id) },
  {
    id: 'upstream',
    header: t('usage.upstream_id'),
    isExtra: true,
    cell: ({ upstream_request_id }) => code(upstream_request_id),
  },
  {
    id: 'error',
    header: t('usage.error'),
    isExtra: true,
    cell: row => (isFailed(row) ? <span className="block truncate">{row.content}</span> : '–'),
  },
]
