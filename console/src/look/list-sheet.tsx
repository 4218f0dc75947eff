import type { RowData } from '@tanstack/react-table'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { Button } from './button.tsx'
import { FilterBar, Sheet } from './page.tsx'
import { Pager, useExistingPage } from './pager.tsx'
import { Empty, Part } from './states.tsx'
import { DataTable } from './table.tsx'
import type { TableProps } from './table-props.ts'

type ListResult<Row> = {
  readonly data: { readonly items: readonly Row[]; readonly total: number } | undefined
  readonly error: unknown
  readonly isPending: boolean
  readonly isPlaceholderData: boolean
  refetch(): unknown
}

type ListSheetProps<Row> = Omit<TableProps<Row>, 'rows' | 'isStale'> & {
  readonly list: ListResult<Row>
  readonly filters: ReactNode
  readonly page: number
  readonly onPage: (page: number) => void
  /** Clears all filters; undefined when none is set. */
  readonly onClear: (() => void) | undefined
  /** Replaces the table, for example with grouped tables. */
  readonly body?: ReactNode
  /** The empty state. */
  readonly none: ReactNode
}

/** A list with filters above and pages below. An empty list explains why and offers the next step. */
export function ListSheet<Row extends RowData>({
  list,
  filters,
  page,
  onPage,
  onClear,
  body,
  none,
  ...table
}: ListSheetProps<Row>) {
  const { t } = useTranslation()
  useExistingPage(list, onPage)
  const rows = list.data?.items ?? []
  return (
    <Sheet>
      <FilterBar>{filters}</FilterBar>
      <Part result={list}>
        {rows.length > 0 ? (
          <>
            {body ?? <DataTable {...table} rows={rows} isStale={list.isPlaceholderData} />}
            <Pager page={page} total={list.data?.total ?? 0} onPage={onPage} />
          </>
        ) : onClear ? (
          <Empty title={t('common.nothing_matches')}>
            <Button onClick={onClear}>{t('common.clear_filters')}</Button>
          </Empty>
        ) : (
          none
        )}
      </Part>
    </Sheet>
  )
}
