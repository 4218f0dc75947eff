import { Link, useNavigate, useParams } from '@tanstack/react-router'
import type { TFunction } from 'i18next'
import { useTranslation } from 'react-i18next'
import type { Entry, LogRow } from '../../api/contract.ts'
import { ApiError } from '../../api/errors.ts'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { CopyIcon } from '../../look/copy.tsx'
import { count, momentInFull, moneyOfLedger, span } from '../../look/format.ts'
import { Moment } from '../../look/moment.tsx'
import { Facts, Panel, Section } from '../../look/panel.tsx'
import { Empty, Part } from '../../look/states.tsx'
import { Attempts } from './attempts.tsx'
import { isFailed, isRequest, otherOf } from './log-row.ts'

/** The request in one sentence. */
function verdict(t: TFunction, row: LogRow): string {
  const attempts = otherOf(row).trace?.attempts?.length ?? 1
  const facts = {
    channel: row.channel_name || (row.channel ? `#${row.channel}` : t('usage.a_channel')),
    time: span(row.use_time_ms),
    cost: `$${row.cost}`,
    count: attempts,
  }
  if (isFailed(row)) return t('usage.verdict_failed', { ...facts, reason: row.content })
  return attempts > 1 ? t('usage.verdict_retried', facts) : t('usage.verdict_good', facts)
}

function CostSection({ row }: { readonly row: LogRow }) {
  const { t } = useTranslation()
  const other = otherOf(row)
  const lines = [
    ['input', row.prompt_tokens],
    ['cached', other.cache_tokens],
    ['cache_write', other.cache_write_tokens],
    ['output', row.completion_tokens],
    ['reasoning', other.reasoning_tokens],
  ] as const
  return (
    <Section title={t('usage.cost')}>
      <table className="w-full text-table">
        <tbody>
          {lines
            .filter(([, quantity]) => quantity)
            .map(([kind, quantity]) => (
              <tr key={kind}>
                <th scope="row" className="py-0.5 text-left font-normal text-ink-2">
                  {t(`usage.line.${kind}`)}
                </th>
                <td className="text-right">
                  {t('usage.token_count', { count: quantity ?? 0, figure: count(quantity) })}
                </td>
              </tr>
            ))}
          <tr>
            <th scope="row" className="pt-2 text-left font-medium">
              {t('usage.charged')}
            </th>
            <td className="pt-2 text-right">
              <span className="double-rule font-medium">{moneyOfLedger(row.cost)}</span>
            </td>
          </tr>
        </tbody>
      </table>
      <Facts
        facts={[
          [
            t('usage.price'),
            other.unpriced
              ? t('usage.unpriced')
              : `${other.priced_as ?? '–'} · ${other.price === 'shipped' ? t('prices.shipped') : (other.price ?? '–')}`,
          ],
          [
            t('usage.counted_by'),
            other.source === 'provider' ? t('usage.by_provider') : (other.source ?? '–'),
          ],
        ]}
      />
    </Section>
  )
}

function Detail({ row }: { readonly row: LogRow }) {
  const { t } = useTranslation()
  const isAdmin = useIsAdmin()
  return (
    <>
      <p className="pb-4 text-section">{isRequest(row) ? verdict(t, row) : row.content}</p>
      {isAdmin && isRequest(row) ? <Attempts row={row} /> : null}
      {isRequest(row) ? <CostSection row={row} /> : null}
      <Section title={t('usage.request')}>
        <Facts
          facts={[
            [
              t('usage.request_id'),
              <span key="id" className="inline-flex items-center gap-1">
                <code className="font-mono text-code break-all">{row.request_id}</code>
                <CopyIcon text={row.request_id} label={t('copy.copy')} />
              </span>,
            ],
            [
              t('usage.time'),
              <span key="time" title={momentInFull(row.created_at)}>
                <Moment at={row.created_at} />
              </span>,
            ],
            [t('usage.model'), row.model_name || '–'],
            [t('usage.token'), row.token_name || '–'],
            ...(isAdmin ? ([[t('usage.user'), row.username]] as const) : []),
            [t('usage.stream'), row.is_stream ? t('common.yes') : t('common.no')],
            [t('usage.first'), span(otherOf(row).frt)],
            [t('usage.total'), span(row.use_time_ms)],
            [t('usage.address'), row.ip || '–'],
            ...(row.upstream_request_id
              ? ([
                  [
                    t('usage.upstream_id'),
                    <code key="up" className="font-mono text-code break-all">
                      {row.upstream_request_id}
                    </code>,
                  ],
                ] as const)
              : []),
          ]}
        />
      </Section>
      <Section title={t('usage.next')}>
        <ul className="flex flex-col gap-1">
          {row.model_name ? (
            <li>
              <Link to="/usage" search={{ model: row.model_name }}>
                {t('usage.same_model')}
              </Link>
            </li>
          ) : null}
          {row.token_name ? (
            <li>
              <Link to="/usage" search={{ token: row.token_name }}>
                {t('usage.same_token')}
              </Link>
            </li>
          ) : null}
          {isAdmin && row.channel ? (
            <li>
              <Link to="/channels/$id" params={{ id: String(row.channel) }}>
                {t('usage.open_channel')}
              </Link>
            </li>
          ) : null}
          {isAdmin && row.model_name ? (
            <li>
              <Link to="/models" search={{ tab: 'route', route: row.model_name }}>
                {t('usage.explain')}
              </Link>
            </li>
          ) : null}
        </ul>
      </Section>
    </>
  )
}

/** The entries of one request: what was taken from whom, to the nanodollar. */
function LedgerSection({ entries }: { readonly entries: readonly Entry[] }) {
  const { t } = useTranslation()
  if (entries.length === 0) return null
  return (
    <Section title={t('nav.ledger')}>
      <ul className="flex flex-col gap-1 text-table">
        {entries.map(entry => (
          <li key={`${entry.chain} ${entry.seq}`} className="flex flex-wrap justify-between gap-x-4">
            <span>
              {t(`ledger.kind.${entry.kind}`)} <span className="text-ink-3">{entry.actor}</span>
            </span>
            <span>{moneyOfLedger(entry.amount)}</span>
          </li>
        ))}
      </ul>
    </Section>
  )
}

export function RequestPanel() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { requestId = '' } = useParams({ strict: false })
  const result = useCall('getLog', { params: { request_id: requestId } })
  const { error } = result
  const isUnknown = error instanceof ApiError && (error.status === 404 || error.status === 400)
  const { rows = [], entries = [], doubts = [] } = result.data ?? {}
  return (
    <Panel title={t('usage.request')} onClose={() => void navigate({ to: '/usage', search: true })}>
      {isUnknown ? (
        <Empty title={t('usage.unknown')}>{t('usage.unknown_help')}</Empty>
      ) : (
        <Part result={result}>
          {rows.map(row => (
            <Detail key={row.id} row={row} />
          ))}
          <LedgerSection entries={entries} />
          {doubts.map(({ channel_id, cost, reason }) => (
            <p key={`${channel_id} ${reason}`} className="text-table text-warn">
              {t('usage.doubt', { channel: channel_id, amount: moneyOfLedger(cost), reason })}
            </p>
          ))}
        </Part>
      )}
    </Panel>
  )
}
