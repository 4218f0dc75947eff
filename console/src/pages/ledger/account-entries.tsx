import type { FormEvent } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { useSelf } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Entries } from '../../look/entries.tsx'
import { Field, TextInput } from '../../look/field.tsx'
import { readWhole, useFilters } from '../../look/filters.tsx'
import { FilterBar, Sheet } from '../../look/page.tsx'
import { Pager, useExistingPage } from '../../look/pager.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { Empty, Part } from '../../look/states.tsx'

type Filters = {
  p?: number | undefined
  user?: number | undefined
  token?: number | undefined
  entries?: number | undefined
}

/** The ledger entries of one user or token. */
export function AccountEntries() {
  const { t } = useTranslation()
  const self = useSelf()
  const { pageSize } = usePreferences()
  const [{ p, user, token, entries: page = 1 }, setFilters] = useFilters<Filters>()
  const query = { p: page, page_size: pageSize, user_id: user, token_id: token }
  const list = useCall('listEntries', { query })
  useExistingPage(list, next => setFilters({ p, entries: next }))
  const rows = list.data?.items ?? []
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const fields = new FormData(event.currentTarget)
    const numberOf = (name: string) => readWhole(fields.get(name) || undefined)
    setFilters({ p, user: numberOf('user'), token: numberOf('token'), entries: undefined })
  }
  return (
    <Sheet title={t('ledger.account_entries')}>
      <FilterBar>
        <form key={`${user} ${token}`} onSubmit={submit} className="flex flex-wrap items-end gap-2">
          {(['user', 'token'] as const).map(name => (
            <Field key={name} label={t(`ledger.by_${name}`)} className="w-36">
              {wiring => (
                <TextInput
                  {...wiring}
                  name={name}
                  type="number"
                  min={1}
                  defaultValue={{ user: user ?? self.id, token }[name] ?? ''}
                />
              )}
            </Field>
          ))}
          <Button type="submit">{t('usage.apply')}</Button>
        </form>
      </FilterBar>
      <Part result={list}>
        {rows.length > 0 ? (
          <>
            <Entries entries={rows} />
            <Pager
              page={page}
              total={list.data?.total ?? 0}
              onPage={next => setFilters({ p, entries: next })}
            />
          </>
        ) : (
          <Empty title={t('ledger.no_entries')} />
        )}
      </Part>
    </Sheet>
  )
}
