import { boundedCount, nonEmptyIds, type Page, type Paging, pageOf } from '../engine/page.ts'
import type { SavedTestRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

/** Undefined: of any user. */
type Owner = { readonly userId: number | undefined }

const ownedBy = (db: Db, { userId }: Owner) => {
  const query = db.selectFrom('saved_tests')
  return userId === undefined ? query : query.where('user_id', '=', userId)
}

export const listSavedTests = (db: Db, owner: Owner, paging: Paging): Promise<Page<SavedTestRow>> =>
  pageOf(
    ownedBy(db, owner).selectAll().orderBy('id', 'desc'),
    boundedCount(db, ownedBy(db, owner).select('id')),
    paging,
  )

export const findSavedTests = (db: Db, owner: Owner, ids: readonly number[]): Promise<SavedTestRow[]> =>
  ownedBy(db, owner).selectAll().where('id', 'in', nonEmptyIds(ids)).orderBy('id').execute()

export const countSavedTests = (db: Db, userId: number): Promise<number> =>
  boundedCount(db, ownedBy(db, { userId }).select('id'))

export async function insertSavedTest(
  trx: Trx,
  test: Omit<SavedTestRow, 'id' | 'content'>,
  /** The encryption is bound to the id of the row. */
  sealFor: (id: number) => Uint8Array,
): Promise<SavedTestRow> {
  const { id } = await trx
    .insertInto('saved_tests')
    .values({ ...test, content: new Uint8Array() })
    .returning('id')
    .executeTakeFirstOrThrow()
  const content = sealFor(id)
  await trx.updateTable('saved_tests').set({ content }).where('id', '=', id).execute()
  return { ...test, id, content }
}

export async function updateSavedTest(
  trx: Trx,
  id: number,
  change: Partial<Pick<SavedTestRow, 'name' | 'expectation'>>,
): Promise<void> {
  if (Object.keys(change).length === 0) return
  await trx.updateTable('saved_tests').set(change).where('id', '=', id).execute()
}

export async function deleteSavedTest(trx: Trx, id: number): Promise<void> {
  await trx.deleteFrom('saved_tests').where('id', '=', id).execute()
}
