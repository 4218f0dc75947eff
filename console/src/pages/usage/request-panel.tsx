import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import type { TFunction } from 'i18next'
import { useTranslation } from 'react-i18next'
import type { CostLines, EntryItem, UsageItem } from '../../api/contract.ts'
import { ApiError } from '../../api/errors.ts'
import { useCall } from '../../api/query.ts'
import { useIsAdmin, useSelf } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { CopyableId } from '../../look/copy.tsx'
import {
  count,
  momentInFull,
  moneyOfLedger,
  moneyOfLine,
  moneyOfOne,
  price,
  span,
} from '../../look/format.ts'
import { ChevronDown, ChevronUp } from '../../look/icons.ts'
import { Moment } from '../../look/moment.tsx'
import { usePageKeys } from '../../look/page-keys.ts'
import { Facts, Panel, Section } from '../../look/panel.tsx'
import { Empty, Part } from '../../look/states.tsx'
import { useGatewayText } from '../../texts/gateway-text.tsx'
import { Attempts } from './attempts.tsx'
import { BodySection } from './body-section.tsx'
import { Explanation } from './explanation.tsx'
import { isFailed, isRejected, isRequest, otherOf } from './log-row.ts'
import type { UsageFilters } from './usage-filters.ts'
import { useChannelNames } from './use-channel-names.ts'
import { useLogPage } from './use-rows.ts'

/** A one-sentence summary of the request. */
function summaryOf(t: TFunction, row: UsageItem, gatewayText: (text: string) => string): string {
  const attempts = otherOf(row).trace?.attempts?.length ?? 1
  const facts = {
    channel: row.channel_name || (row.channel ? `#${row.channel}` : t('usage.a_channel')),
    time: span(row.use_time_ms),
    cost: moneyOfOne(row.cost),
    count: attempts,
  }
  if (isRejected(row)) return t('usage.summary_rejected', { reason: gatewayText(row.content) })
  if (isFailed(row)) return t('usage.summary_failed', { ...facts, reason: gatewayText(row.content) })
  // Only administrators see the channel.
  if (!row.channel_name) return t('usage.summary_plain', facts)
  return attempts > 1 ? t('usage.summary_retried', facts) : t('usage.summary_success', facts)
}

/** Token counts, when the cost lines are no longer available. */
function TokenCounts({ row }: { readonly row: UsageItem }) {
  const { t } = useTranslation()
  const other = otherOf(row)
  const counts = [
    ['input', row.prompt_tokens],
    ['cachedInput', other.cache_tokens],
    ['cacheWrite', other.cache_write_tokens],
    ['output', row.completion_tokens],
    ['reasoning', other.reasoning_tokens],
  ] as const
  return counts
    .filter(([, quantity]) => quantity)
    .map(([kind, quantity]) => (
      <tr key={kind}>
        <th scope="row" className="py-0.5 text-left font-normal text-ink-2">
          {t(`usage.line.${kind}`)}
        </th>
        <td className="text-right" colSpan={3}>
          {t('usage.token_count', { count: quantity ?? 0, figure: count(quantity) })}
        </td>
      </tr>
    ))
}

/** The cost lines: quantity, price and amount. */
function Lines({ costs }: { readonly costs: CostLines }) {
  const { t, i18n } = useTranslation()
  const words = (key: string, name: string) => (i18n.exists(key) ? t(key as 'usage.line.input') : name)
  const rest = [
    ['rounding', costs.rounding],
    ['overrun', costs.overrun],
  ] as const
  return (
    <>
      {costs.lines.map(({ kind, quantity, rate, price: each, amount }) => (
        <tr key={`${kind} ${rate}`} className="align-top">
          <th scope="row" className="py-0.5 pr-2 text-left font-normal text-ink-2">
            {words(`usage.line.${kind}`, kind)}
          </th>
          <td className="text-right">{count(quantity)}</td>
          <td className="px-2 text-right whitespace-nowrap text-ink-3">
            × {price(each)}
            <span className="max-sm:hidden"> {words(`usage.per.${rate}`, t('usage.per.tokens'))}</span>
          </td>
          <td className="text-right whitespace-nowrap">{moneyOfLine(amount)}</td>
        </tr>
      ))}
      {rest
        .filter(([, amount]) => Number(amount) !== 0)
        .map(([name, amount]) => (
          <tr key={name}>
            <th scope="row" colSpan={3} className="py-0.5 text-left font-normal text-ink-3">
              {name === 'overrun' ? t('usage.not_charged') : t('usage.rounding')}
            </th>
            <td className="text-right whitespace-nowrap">
              {name === 'overrun' ? '−' : ''}
              {moneyOfLine(amount)}
            </td>
          </tr>
        ))}
    </>
  )
}

function CostSection({ row, costs }: { readonly row: UsageItem; readonly costs: CostLines | undefined }) {
  const { t } = useTranslation()
  const other = otherOf(row)
  return (
    <Section title={t('usage.cost')}>
      <table className="w-full text-table">
        <tbody>
          {costs ? <Lines costs={costs} /> : <TokenCounts row={row} />}
          <tr>
            <th scope="row" className="pt-2 text-left font-medium" colSpan={3}>
              {t('usage.charged')}
            </th>
            <td className="pt-2 text-right">
              <span className="double-rule font-medium">{moneyOfLedger(row.cost)}</span>
            </td>
          </tr>
        </tbody>
      </table>
      {costs || Number(row.cost) === 0 ? null : (
        <p className="text-label text-ink-3">{t('usage.no_lines')}</p>
      )}
      <Facts
        facts={[
          [
            t('usage.price'),
            other.unpriced
              ? t('usage.unpriced')
              : other.price
                ? `${other.priced_as ?? ''} · ${other.price === 'shipped' ? t('prices.built_in') : other.price}`
                : '–',
          ],
          ...(row.vendor_cost === null
            ? []
            : ([[t('usage.vendor_cost'), moneyOfLine(row.vendor_cost)]] as const)),
          [t('usage.counted_by'), other.source ? t(`usage.source.${other.source as 'zero'}`) : '–'],
        ]}
      />
    </Section>
  )
}

/** The tags of a request. Each lists the requests that have it too. */
function TagLinks({ tags }: { readonly tags: Readonly<Record<string, string>> }) {
  return (
    <ul className="flex flex-wrap gap-1.5">
      {Object.entries(tags).map(([name, value]) => (
        <li key={name} className="max-w-full">
          <Link
            to="/usage"
            search={{ tag: `${name}=${value}` }}
            className="block truncate rounded-control bg-sunken px-1.5 text-label text-ink-2 no-underline"
          >
            {name}={value}
          </Link>
        </li>
      ))}
    </ul>
  )
}

/** Why a request failed. The summary above and the attempts below are not repeated. */
function WhySection({ row }: { readonly row: UsageItem }) {
  const { t } = useTranslation()
  const isAdmin = useIsAdmin()
  const isExplained = isFailed(row) || isRejected(row)
  const { data } = useCall('explainRequest', { query: { q: row.request_id } }, { enabled: isExplained })
  if (!isExplained || !data) return null
  const sentences = data.sentences.slice(1)
  // After the reason, the attempts are listed.
  if (isAdmin) sentences.splice(1, data.attempts.length)
  return (
    <Section title={t('explain.title')}>
      <Explanation explanation={data} sentences={sentences} />
    </Section>
  )
}

/** Administrators see the route of the model, others its requests. */
function ModelLink({ model }: { readonly model: string }) {
  const isAdmin = useIsAdmin()
  return isAdmin ? (
    <Link to="/models" search={{ tab: 'route', route: model }} className="font-mono text-code">
      {model}
    </Link>
  ) : (
    <Link to="/usage" search={{ model }} className="font-mono text-code">
      {model}
    </Link>
  )
}

/** A token can be opened by its owner only. */
function TokenLink({ row }: { readonly row: UsageItem }) {
  const self = useSelf()
  if (!row.token_id) return row.token_name || '–'
  const id = String(row.token_id)
  return row.user_id === self.id ? (
    <Link to="/tokens/$id" params={{ id }}>
      {row.token_name || `#${id}`}
    </Link>
  ) : (
    <Link to="/usage" search={{ token_id: row.token_id }}>
      {row.token_name || `#${id}`}
    </Link>
  )
}

/** The channel that answered, or those that could not take the request. */
function ChannelLinks({ row }: { readonly row: UsageItem }) {
  const { t } = useTranslation()
  const names = useChannelNames()
  const skipped = (otherOf(row).trace?.passed_over ?? []).map(each => each.channelId ?? each.channel_id)
  const ids = row.channel ? [row.channel] : [...new Set(skipped.filter(id => id !== undefined))]
  return ids.map(id => (
    <li key={id}>
      <Link to="/channels/$id" params={{ id: String(id) }}>
        {t('usage.open_channel', { name: names.get(id) ?? `#${id}` })}
      </Link>
    </li>
  ))
}

type DetailProps = {
  readonly row: UsageItem
  readonly costs: CostLines | undefined
  readonly hasBody: boolean
}

function Detail({ row, costs, hasBody }: DetailProps) {
  const { t } = useTranslation()
  const self = useSelf()
  const gatewayText = useGatewayText()
  const isAdmin = useIsAdmin()
  const wasSent = isRequest(row) && !isRejected(row)
  const { error_code, warnings, tags, requested_model } = otherOf(row)
  const hasCost = !isFailed(row) || Number(row.cost) !== 0 || row.vendor_cost !== null
  const model = row.model_name || requested_model
  return (
    <>
      <p className="pb-4 text-section">{isRequest(row) ? summaryOf(t, row, gatewayText) : row.content}</p>
      <WhySection row={row} />
      {isAdmin && wasSent ? <Attempts row={row} /> : null}
      {wasSent && hasCost ? <CostSection row={row} costs={costs} /> : null}
      <Section title={t('usage.request')}>
        <Facts
          facts={[
            [t('usage.request_id'), <CopyableId key="id" id={row.request_id} />],
            [
              t('usage.time'),
              <span key="time" title={momentInFull(row.created_at)}>
                <Moment at={row.created_at} />
              </span>,
            ],
            ...(error_code ? ([[t('usage.error'), <code key="code">{error_code}</code>]] as const) : []),
            ...(warnings ? ([[t('usage.warnings'), warnings.join('; ')]] as const) : []),
            ...(tags ? ([[t('usage.tags'), <TagLinks key="tags" tags={tags} />]] as const) : []),
            [t('usage.model'), model ? <ModelLink key="model" model={model} /> : '–'],
            [t('usage.token'), <TokenLink key="token" row={row} />],
            ...(isAdmin
              ? ([
                  [
                    t('usage.user'),
                    <Link key="user" to="/users/$id" params={{ id: String(row.user_id) }}>
                      {row.username || `#${row.user_id}`}
                    </Link>,
                  ],
                ] as const)
              : []),
            [t('usage.stream'), row.is_stream ? t('common.yes') : t('common.no')],
            [t('usage.ttft'), span(otherOf(row).frt)],
            [t('usage.latency'), span(row.use_time_ms)],
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
      {isRequest(row) ? <BodySection row={row} hasBody={hasBody} /> : null}
      <Section title={t('usage.related')}>
        <ul className="flex flex-col gap-1">
          {row.model_name ? (
            <li>
              <Link to="/usage" search={{ model: row.model_name }}>
                {t('usage.same_model')}
              </Link>
            </li>
          ) : null}
          {row.token_id ? (
            <li>
              <Link to="/usage" search={{ token_id: row.token_id }}>
                {t('usage.same_token')}
              </Link>
            </li>
          ) : null}
          {row.token_id && row.user_id === self.id ? (
            <li>
              <Link to="/tokens/$id" params={{ id: String(row.token_id) }}>
                {t('usage.open_token')}
              </Link>
            </li>
          ) : null}
          {isAdmin ? <ChannelLinks row={row} /> : null}
          {isAdmin && model ? (
            <li>
              <Link to="/models" search={{ tab: 'route', route: model }}>
                {t('usage.explain')}
              </Link>
            </li>
          ) : null}
        </ul>
      </Section>
    </>
  )
}

/** The ledger entries of the request. */
function LedgerSection({ entries }: { readonly entries: readonly EntryItem[] }) {
  const { t } = useTranslation()
  if (entries.length === 0) return null
  return (
    <Section title={t('nav.ledger')}>
      <ul className="flex flex-col gap-1 text-table">
        {entries.map(entry => (
          <li key={`${entry.chain} ${entry.seq}`} className="flex flex-wrap justify-between gap-x-4">
            <span>
              {t(`ledger.kind.${entry.kind}`)}{' '}
              <span className="text-ink-3">
                {entry.actor === 'system' ? t('ledger.system') : entry.actor}
              </span>
            </span>
            <span>{moneyOfLedger(entry.amount)}</span>
          </li>
        ))}
      </ul>
    </Section>
  )
}

/** The previous and next request in the list. */
function useNeighbours(requestId: string) {
  const navigate = useNavigate()
  const filters = useSearch({ strict: false }) as UsageFilters
  const { data } = useLogPage(filters)
  const ids = (data?.rows ?? []).map(({ request_id }) => request_id).filter(id => id !== '')
  const at = ids.indexOf(requestId)
  const open = (id: string | undefined) =>
    id && void navigate({ to: '/usage/$requestId', params: { requestId: id }, search: true, replace: true })
  const [newer, older] = at < 0 ? [] : [ids[at - 1], ids[at + 1]]
  return { newer, older, open }
}

export function RequestPanel() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const gatewayText = useGatewayText()
  const { requestId = '' } = useParams({ strict: false })
  const { newer, older, open } = useNeighbours(requestId)
  usePageKeys({
    j: { words: t('usage.older_one'), act: () => open(older) },
    k: { words: t('usage.newer_one'), act: () => open(newer) },
  })
  const result = useCall('getLog', { params: { request_id: requestId } })
  const { error } = result
  const isUnknown = error instanceof ApiError && (error.status === 404 || error.status === 400)
  const { rows = [], costs = [], entries = [], doubts = [], has_body = false } = result.data ?? {}
  return (
    <Panel title={t('usage.request')} onClose={() => void navigate({ to: '/usage', search: true })}>
      <nav className="flex gap-2 pb-3" aria-label={t('usage.neighbours')}>
        <Button isSmall icon={ChevronUp} hint="k" disabled={!newer} onClick={() => open(newer)}>
          {t('usage.newer_one')}
        </Button>
        <Button isSmall icon={ChevronDown} hint="j" disabled={!older} onClick={() => open(older)}>
          {t('usage.older_one')}
        </Button>
      </nav>
      {isUnknown ? (
        <Empty title={t('usage.unknown')}>{t('usage.unknown_help')}</Empty>
      ) : (
        <Part result={result}>
          {rows.map((row, index) => (
            <Detail key={row.id} row={row} costs={costs[index] ?? undefined} hasBody={has_body} />
          ))}
          <LedgerSection entries={entries} />
          {doubts.map(({ channel_id, cost, reason }) => (
            <p key={`${channel_id} ${reason}`} className="text-table text-warn">
              {t('usage.unresolved', {
                channel: channel_id,
                amount: moneyOfLedger(cost),
                reason: gatewayText(reason),
              })}
            </p>
          ))}
        </Part>
      )}
    </Panel>
  )
}
