import { type SelectQueryBuilder, sql } from 'kysely'
import type { Database } from './schema.ts'
import type { Db } from './store.ts'

export type Paging = { readonly page: number; readonly pageSize: number }
export type Page<Row> = { readonly items: Row[]; readonly total: number }

/** The maximum of exact counts: no list reads more rows than this for its total. */
const MAX_COUNT = 1_000_000

// biome-ignore lint/suspicious/noExplicitAny: any table of ours, with any row
type AnyQuery<Row> = SelectQueryBuilder<Database, any, Row>

export async function boundedCount<Row>(db: Db, rows: AnyQuery<Row>): Promise<number> {
  const { count } = await db
    .selectFrom(rows.limit(MAX_COUNT).as('counted'))
    .select(sql<number>`count(*)`.as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

export async function pageOf<Row>(
  query: AnyQuery<Row>,
  total: Promise<number>,
  { page, pageSize }: Paging,
): Promise<Page<Row>> {
  const items = query.limit(pageSize).offset((page - 1) * pageSize)
  const [rows, count] = await Promise.all([items.execute(), total])
  return { items: rows, total: count }
}

/** Ids for `in (…)`, which must not be empty; no row has the id -1. */
export const nonEmptyIds = (ids: readonly number[]) => [...ids, -1]

/** Escapes the wildcards of LIKE in a search text. */
export const literal = (text: string) => text.replace(/[\\%_]/g, '\\$&')
export const containing = (folded: string) => `%${literal(folded)}%`

/** `column LIKE …` with the escape that `containing` uses, on both engines. */
export const like = (column: string, pattern: string) =>
  sql<boolean>`${sql.ref(column)} like ${pattern} escape '\\'`
