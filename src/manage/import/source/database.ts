import type { SourceRow } from '../values.ts'

/** Rows per read. With the size of a row, this bounds the memory that a hostile database can take. */
export const PAGE = 200
/** Of a larger row only the key is read: nothing that an import needs is that large. */
export const MAX_ROW_BYTES = 2 * 1024 * 1024

export type RowRange = {
  readonly table: string
  /** Columns that the table has. */
  readonly columns: readonly string[]
  /** A unique column; rows are read in its order. */
  readonly key: string
  readonly after?: unknown
  /** The last rows instead of the first; then `after` is not used. */
  readonly isDescending?: boolean
}

/** A database of another gateway, opened for reading. */
export type SourceDatabase = {
  readonly engine: 'sqlite' | 'mysql' | 'postgres'
  /** The columns of a table; empty if there is no such table. */
  columnsOf(table: string): Promise<ReadonlySet<string>>
  /** The next rows of a table, at most `PAGE`. `is_oversized` tells that a row was too large. */
  read(range: RowRange): Promise<readonly SourceRow[]>
  close(): Promise<void>
}

/** The database cannot be read. The message has no credentials. */
export class SourceError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'SourceError'
  }
}

export const OVERSIZED = 'is_oversized'

type Dialect = {
  quote(name: string): string
  /** The length of a value in bytes. */
  bytes(column: string): string
  readonly parameter: string
}

/** The statement that reads a page. Names come from the schema of the source, so they are quoted. */
export function pageStatement({ quote, bytes, parameter }: Dialect, range: RowRange): string {
  const others = range.columns.filter(column => column !== range.key)
  const size = others.map(column => `coalesce(${bytes(quote(column))}, 0)`).join(' + ')
  const isLarge = `(${size || '0'}) > ${MAX_ROW_BYTES}`
  const columns = [
    // The key stays a plain column, so that its index gives the order.
    quote(range.key),
    ...others.map(column => `case when ${isLarge} then null else ${quote(column)} end as ${quote(column)}`),
    `case when ${isLarge} then 1 else 0 end as ${OVERSIZED}`,
  ]
  const after = range.after === undefined ? '' : ` where ${quote(range.key)} > ${parameter}`
  return `select ${columns.join(', ')} from ${quote(range.table)}${after} order by ${quote(range.key)}${range.isDescending ? ' desc' : ''} limit ${PAGE}`
}

/** All rows of a table, page by page, with those of the columns that it has. */
export async function* pagesOf(
  database: SourceDatabase,
  { table, key, columns, after }: { table: string; key: string; columns: readonly string[]; after?: unknown },
): AsyncGenerator<readonly SourceRow[]> {
  const existing = await database.columnsOf(table)
  const available = columns.filter(column => existing.has(column))
  if (!existing.has(key)) return
  let last = after
  for (;;) {
    const rows = await database.read({ table, columns: [...new Set([key, ...available])], key, after: last })
    if (rows.length === 0) return
    yield rows
    last = rows.at(-1)?.[key]
    if (rows.length < PAGE || last === undefined || last === null) return
  }
}
