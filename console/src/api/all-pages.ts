const PAGE = 500

type Paging = { readonly p: number; readonly page_size: number }
type Page<Row> = { readonly items: readonly Row[]; readonly total: number }

/** Reads all rows of a list, or the first `most`. Reads the first page alone, then the others in parallel. */
export async function allPages<Row>(
  read: (paging: Paging) => Promise<Page<Row>>,
  most = Number.POSITIVE_INFINITY,
): Promise<readonly Row[]> {
  const first = await read({ p: 1, page_size: PAGE })
  const pages = Math.ceil(Math.min(first.total, most) / PAGE)
  const others = Array.from({ length: Math.max(0, pages - 1) }, (_, index) =>
    read({ p: index + 2, page_size: PAGE }),
  )
  return [first, ...(await Promise.all(others))].flatMap(({ items }) => items).slice(0, most)
}
