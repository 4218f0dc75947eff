import { chunksOf } from '../engine/chunks.ts'
import { boundedCount, type Page, type Paging, pageOf } from '../engine/page.ts'
import type { ConfigChangeRow, ConfigOwnedRow, ConfigRevisionRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

const CHUNK = 500

export async function lastRevision(db: Db): Promise<number> {
  const row = await db
    .selectFrom('config_revisions')
    .select('revision')
    .orderBy('revision', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.revision ?? 0
}

/** Writes the next revision. The configuration must be locked, so that no number is assigned twice. */
export async function insertRevision(
  trx: Trx,
  revision: Omit<ConfigRevisionRow, 'revision'>,
  changes: readonly Omit<ConfigChangeRow, 'revision'>[],
): Promise<number> {
  const number = (await lastRevision(trx)) + 1
  await trx
    .insertInto('config_revisions')
    .values({ ...revision, revision: number })
    .execute()
  for (const chunk of chunksOf(changes, CHUNK))
    await trx
      .insertInto('config_changes')
      .values(chunk.map(change => ({ ...change, revision: number })))
      .execute()
  return number
}

export const listRevisions = (db: Db, paging: Paging): Promise<Page<ConfigRevisionRow>> => {
  const query = db.selectFrom('config_revisions')
  const items = query.selectAll().orderBy('revision', 'desc')
  return pageOf(items, boundedCount(db, query.select('revision')), paging)
}

export const findRevision = (db: Db, revision: number): Promise<ConfigRevisionRow | undefined> =>
  db.selectFrom('config_revisions').selectAll().where('revision', '=', revision).executeTakeFirst()

/** The changes of a revision, at most so many. */
export const changesOf = (db: Db, revision: number, limit: number): Promise<ConfigChangeRow[]> =>
  db
    .selectFrom('config_changes')
    .selectAll()
    .where('revision', '=', revision)
    .orderBy('target')
    .limit(limit)
    .execute()

export const countChanges = (db: Db, revision: number): Promise<number> =>
  boundedCount(db, db.selectFrom('config_changes').select('target').where('revision', '=', revision))

export const lastChange = (db: Db, target: string): Promise<ConfigChangeRow | undefined> =>
  db
    .selectFrom('config_changes')
    .selectAll()
    .where('target', '=', target)
    .orderBy('revision', 'desc')
    .limit(1)
    .executeTakeFirst()

/** The last change of an object, which may have another id than in its first revision. */
export const lastChangeOfObject = (db: Db, object: string): Promise<ConfigChangeRow | undefined> =>
  db
    .selectFrom('config_changes')
    .selectAll()
    .where('object', '=', object)
    .orderBy('revision', 'desc')
    .limit(1)
    .executeTakeFirst()

/** Every change after one revision and up to another, oldest first. */
export const changesBetween = (db: Db, after: number, upTo: number): Promise<ConfigChangeRow[]> =>
  db
    .selectFrom('config_changes')
    .selectAll()
    .where('revision', '>', after)
    .where('revision', '<=', upTo)
    .orderBy('revision')
    .orderBy('target')
    .execute()

export const listOwned = (db: Db): Promise<ConfigOwnedRow[]> =>
  db.selectFrom('config_owned').selectAll().execute()

export async function writeOwned(trx: Trx, row: ConfigOwnedRow): Promise<void> {
  const { target: _target, ...update } = row
  await trx
    .insertInto('config_owned')
    .values(row)
    .onConflict(conflict => conflict.column('target').doUpdateSet(update))
    .execute()
}

export async function deleteOwned(trx: Trx, targets: readonly string[]): Promise<void> {
  for (const chunk of chunksOf(targets, CHUNK))
    await trx.deleteFrom('config_owned').where('target', 'in', chunk).execute()
}
