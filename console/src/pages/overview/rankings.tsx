import { Link } from '@tanstack/react-router'
import { Tabs } from 'radix-ui'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { IconButton } from '../../look/button.tsx'
import { count, moneyOfSum, share } from '../../look/format.ts'
import { Focus } from '../../look/icons.ts'
import { Sheet } from '../../look/page.tsx'
import { Tab, TabList } from '../../look/snippets.tsx'
import { Empty, Part } from '../../look/states.tsx'
import { type GroupBy, logQuery, type OverviewFilter, type Scope, usageSearch, useTop } from './use-series.ts'

/** No name has a line break, so this key cannot clash. Rejected requests without a known model have an empty name. */
const OTHER = '\n'
const NO_MODEL = ''

/** The scope filter of a row. */
const scopeOf = (by: GroupBy, key: string): Scope =>
  by === 'model' ? { model: key } : { [`${by}_id`]: Number(key) }

type RankingsProps = { readonly filter: OverviewFilter; readonly onScope: (scope: Scope) => void }

function Ranking({ filter, by, onScope }: RankingsProps & { readonly by: GroupBy }) {
  const { t } = useTranslation()
  const result = useTop(filter, by)
  const { rows: top = [], other } = result.data ?? {}
  const rows = other ? [...top, { key: OTHER, name: OTHER, ...other }] : top
  return (
    <Part result={result}>
      {rows.length === 0 ? <Empty title={t('usage.none')} /> : null}
      {rows.length > 0 ? (
        <table className="w-full text-table" aria-label={t(`usage.by.${by}`)}>
          <thead>
            <tr className="border-b border-line text-label text-ink-3">
              <th scope="col" className="px-4 py-2 text-left font-medium">
                {t(`usage.by.${by}`)}
              </th>
              <th scope="col" className="px-2 text-right font-medium">
                {t('overview.spend')}
              </th>
              <th scope="col" className="px-2 text-right font-medium">
                {t('overview.requests')}
              </th>
              <th scope="col" className="px-2 text-right font-medium">
                {t('overview.success')}
              </th>
              <th scope="col" className="hidden py-2 pr-4 pl-2 text-right font-medium sm:table-cell">
                {t('overview.tokens')}
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ key, name, cost, requests, failures, prompt_tokens, completion_tokens }) => (
              <tr key={key} className="h-(--row) border-b border-line last:border-b-0">
                <td className="w-full max-w-0 px-4">
                  {key === OTHER ? (
                    <span className="text-ink-3">{t('overview.other')}</span>
                  ) : by === 'model' && key === NO_MODEL ? (
                    <span className="text-ink-3">{t('overview.no_model')}</span>
                  ) : (
                    <span className="flex items-center gap-1">
                      <Link
                        to="/usage"
                        search={usageSearch({ ...filter, scope: { ...filter.scope, ...scopeOf(by, key) } })}
                        className="truncate"
                      >
                        {name}
                      </Link>
                      <IconButton
                        icon={Focus}
                        label={t('overview.only', { name })}
                        className="shrink-0"
                        onClick={() => onScope(scopeOf(by, key))}
                      />
                    </span>
                  )}
                </td>
                <td className="px-2 text-right">{moneyOfSum(cost)}</td>
                <td className="px-2 text-right">{count(requests)}</td>
                <td className="px-2 text-right">{share(requests - failures, requests)}</td>
                <td className="hidden pr-4 pl-2 text-right sm:table-cell">
                  {count(prompt_tokens + completion_tokens)}
                </td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <td className="px-4 py-2 text-ink-3" colSpan={5}>
                {t('overview.spend_sum', { amount: moneyOfSum(result.data?.totals.cost) })}
              </td>
            </tr>
          </tfoot>
        </table>
      ) : null}
    </Part>
  )
}

/** Error codes by frequency. */
function Failures({ filter }: { readonly filter: OverviewFilter }) {
  const { t } = useTranslation()
  const query = { ...logQuery(filter), by: 'error', limit: 8 }
  const result = useCall('logFacets', { query }, { refetchMs: filter.until === undefined ? 15_000 : false })
  const rows = result.data?.values ?? []
  return (
    <Part result={result}>
      {rows.length === 0 ? <Empty title={t('overview.no_failures')} /> : null}
      <ul className="divide-y divide-line">
        {rows.map(({ key, count: requests }) => (
          <li key={key} className="flex h-(--row) items-center justify-between gap-3 px-4 text-table">
            <Link
              to="/usage"
              search={{ ...usageSearch(filter), error_code: key }}
              className="min-w-0 truncate font-mono text-code"
            >
              {key}
            </Link>
            {count(requests)}
          </li>
        ))}
      </ul>
    </Part>
  )
}

/** Rankings by spend, and errors. */
export function Rankings({ filter, onScope }: RankingsProps) {
  const { t } = useTranslation()
  const isAdmin = useIsAdmin()
  const [by, setBy] = useState<GroupBy | 'error'>('model')
  const groups = isAdmin
    ? (['model', 'token', 'channel', 'user', 'error'] as const)
    : (['model', 'token', 'error'] as const)
  return (
    <Sheet title={t('overview.top')}>
      <Tabs.Root value={by} onValueChange={value => setBy(value as GroupBy | 'error')}>
        <div className="px-3 pt-2">
          <TabList label={t('overview.top')}>
            {groups.map(group => (
              <Tab key={group} value={group}>
                {t(`usage.by.${group}`)}
              </Tab>
            ))}
          </TabList>
        </div>
        <Tabs.Content value={by} tabIndex={-1}>
          {by === 'error' ? (
            <Failures filter={filter} />
          ) : (
            <Ranking filter={filter} by={by} onScope={onScope} />
          )}
        </Tabs.Content>
      </Tabs.Root>
    </Sheet>
  )
}
