import { Link } from '@tanstack/react-router'
import { Tabs } from 'radix-ui'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { count, moneyOfSum, share } from '../../look/format.ts'
import { Sheet } from '../../look/page.tsx'
import { Tab, TabList } from '../../look/snippets.tsx'
import { Empty, Part } from '../../look/states.tsx'
import { type GroupBy, type Sight, stretch, useTop } from './use-series.ts'

/** No thing of ours has an empty name. */
const OTHER = ''

/** The same time on the usage page. */
function timeOf(sight: Sight) {
  const { from, to } = stretch(sight)
  return sight.until === undefined ? { range: sight.range } : { from, to: to - 1 }
}

/** The usage page with this one's rows only. */
function filterFor(by: GroupBy, key: string, sight: Sight) {
  const time = timeOf(sight)
  if (by === 'model') return { ...time, model: key }
  if (by === 'token') return { ...time, token_id: Number(key) }
  if (by === 'user') return { ...time, user_id: Number(key) }
  return { ...time, channel: Number(key) }
}

function Ranking({ sight, by }: { readonly sight: Sight; readonly by: GroupBy }) {
  const { t } = useTranslation()
  const result = useTop(sight, by)
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
                {t('overview.requests')}
              </th>
              <th scope="col" className="px-2 text-right font-medium">
                {t('overview.success')}
              </th>
              <th scope="col" className="hidden px-2 text-right font-medium sm:table-cell">
                {t('overview.tokens')}
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ key, name, requests, failures, prompt_tokens, completion_tokens }) => (
              <tr key={key} className="h-(--row) border-b border-line last:border-b-0">
                <td className="w-full max-w-0 truncate px-4">
                  {key === OTHER ? (
                    <span className="text-ink-3">{t('overview.other')}</span>
                  ) : (
                    <Link to="/usage" search={filterFor(by, key, sight)}>
                      {name}
                    </Link>
                  )}
                </td>
                <td className="px-2 text-right">{count(requests)}</td>
                <td className="px-2 text-right">{share(requests - failures, requests)}</td>
                <td className="hidden px-2 text-right sm:table-cell">
                  {count(prompt_tokens + completion_tokens)}
                </td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <td className="px-4 py-2 text-ink-3" colSpan={4}>
                {t('overview.spend_sum', { amount: moneyOfSum(result.data?.totals.cost) })}
              </td>
            </tr>
          </tfoot>
        </table>
      ) : null}
    </Part>
  )
}

/** How requests failed, the most frequent first. */
function Failures({ sight }: { readonly sight: Sight }) {
  const { t } = useTranslation()
  const { from, to } = stretch(sight)
  const end = sight.until === undefined ? undefined : to - 1
  const query = { by: 'error', start_timestamp: from, end_timestamp: end, limit: 8 }
  const result = useCall('logFacets', { query }, { everyMs: end === undefined ? 15_000 : false })
  const rows = result.data?.values ?? []
  return (
    <Part result={result}>
      {rows.length === 0 ? <Empty title={t('overview.no_failures')} /> : null}
      <ul className="divide-y divide-line">
        {rows.map(({ key, count: requests }) => (
          <li key={key} className="flex h-(--row) items-center justify-between gap-3 px-4 text-table">
            <Link
              to="/usage"
              search={{ ...timeOf(sight), error_code: key }}
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

/** Who and what it was, the dearest first. */
export function Rankings({ sight }: { readonly sight: Sight }) {
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
          {by === 'error' ? <Failures sight={sight} /> : <Ranking sight={sight} by={by} />}
        </Tabs.Content>
      </Tabs.Root>
    </Sheet>
  )
}
