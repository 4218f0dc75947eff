import type { RowData } from '@tanstack/react-table'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { Button } from './button.tsx'
import { FilterBar, Sheet } from './page.tsx'
import { Pager } from './pager.tsx'
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
  /** Drops every filter; undefined where none is set. */
  readonly onClear: (() => void) | undefined
  /** In place of one table, where the rows are shown in another way. */
  readonly body?: ReactNode
  /** What is said before there is anything to list. */
  readonly none: ReactNode
}

/** A list with its filters above it and its pages below; where it is empty, the reason and the way on. */
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
