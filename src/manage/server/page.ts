import type { Page, Paging } from '../../store/engine/page.ts'

/** A page of rows, told as the contract's list. */
export const presentPage = <Row, Told>(
  { items, total }: Page<Row>,
  { page, pageSize }: Paging,
  tell: (row: Row) => Told,
) => ({
  page,
  page_size: pageSize,
  total,
  items: items.map(tell),
})
