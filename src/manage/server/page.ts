import type { Page, Paging } from '../../store/engine/page.ts'

/** A page of rows as the contract's list. */
export const presentPage = <Row, View>(
  { items, total }: Page<Row>,
  { page, pageSize }: Paging,
  present: (row: Row) => View,
) => ({
  page,
  page_size: pageSize,
  total,
  items: items.map(present),
})
