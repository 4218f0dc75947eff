import { sql } from 'kysely'
import { chunksOf } from '../engine/chunks.ts'
import type { ImportKind, ImportRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

const CHUNK = 500

/** Every row that was imported from a source, by its id there. */
export async function findImports(db: Db, source: string, kind: ImportKind): Promise<Map<string, ImportRow>> {
  const rows = await db
    .selectFrom('imports')
    .selectAll()
    .where('source', '=', source)
    .where('kind', '=', kind)
    .execute()
  return new Map(rows.map(row => [row.source_id, row]))
}

/** One imported row. An import decides by it in the transaction that writes: another machine may import the same source. */
export const findImport = (
  trx: Trx,
  { source, kind, source_id }: Pick<ImportRow, 'source' | 'kind' | 'source_id'>,
): Promise<ImportRow> =>
  trx
    .selectFrom('imports')
    .selectAll()
    .where('source', '=', source)
    .where('kind', '=', kind)
    .where('source_id', '=', source_id)
    .executeTakeFirstOrThrow()

export async function saveImports(trx: Trx, rows: readonly ImportRow[]): Promise<void> {
  for (const chunk of chunksOf(rows, CHUNK))
    await trx
      .insertInto('imports')
      .values(chunk)
      .onConflict(conflict =>
        conflict.columns(['source', 'kind', 'source_id']).doUpdateSet({
          target_id: sql<number>`excluded.target_id`,
          state: sql<string>`excluded.state`,
          time: sql<number>`excluded.time`,
        }),
      )
      .execute()
}

export async function deleteImport(
  trx: Trx,
  { source, kind, source_id }: Pick<ImportRow, 'source' | 'kind' | 'source_id'>,
): Promise<void> {
  await trx
    .deleteFrom('imports')
    .where('source', '=', source)
    .where('kind', '=', kind)
    .where('source_id', '=', source_id)
    .execute()
}
