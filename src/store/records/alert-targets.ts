import type { TargetOptions, TargetSecrets } from '../../domain/alert.ts'
import { boundedCount, type Page, type Paging, pageOf } from '../engine/page.ts'
import type { AlertTargetRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

export const optionsOfTarget = (row: Pick<AlertTargetRow, 'options'>) =>
  JSON.parse(row.options) as TargetOptions
export const hintsOfTarget = (row: Pick<AlertTargetRow, 'hints'>) => JSON.parse(row.hints) as TargetSecrets

export const findTarget = (db: Db, id: number): Promise<AlertTargetRow | undefined> =>
  db.selectFrom('alert_targets').selectAll().where('id', '=', id).executeTakeFirst()

/** In the order of their creation. */
export const listTargets = (db: Db, paging: Paging): Promise<Page<AlertTargetRow>> => {
  const query = db.selectFrom('alert_targets')
  return pageOf(query.selectAll().orderBy('id'), boundedCount(db, query.select('id')), paging)
}

export const enabledTargets = (db: Db): Promise<AlertTargetRow[]> =>
  db.selectFrom('alert_targets').selectAll().where('enabled', '=', 1).orderBy('id').execute()

/** The names of targets, by id. */
export async function targetNames(db: Db): Promise<Map<number, string>> {
  const rows = await db.selectFrom('alert_targets').select(['id', 'name']).execute()
  return new Map(rows.map(({ id, name }) => [id, name]))
}

/** The secrets are sealed to the id of the row, so the row is inserted first. */
export async function insertTarget(
  trx: Trx,
  target: Omit<AlertTargetRow, 'id' | 'sealed'>,
  seal: (id: number) => string,
): Promise<number> {
  const { id } = await trx
    .insertInto('alert_targets')
    .values({ ...target, sealed: '' })
    .returning('id')
    .executeTakeFirstOrThrow()
  await updateTarget(trx, id, { sealed: seal(id) })
  return id
}

export type TargetChange = Partial<Omit<AlertTargetRow, 'id' | 'type' | 'created_time'>>

export async function updateTarget(trx: Trx, id: number, change: TargetChange): Promise<void> {
  await trx.updateTable('alert_targets').set(change).where('id', '=', id).execute()
}

/** Deletes a target with its messages. */
export async function deleteTarget(trx: Trx, id: number): Promise<void> {
  await trx.deleteFrom('alert_deliveries').where('target_id', '=', id).execute()
  await trx.deleteFrom('alert_targets').where('id', '=', id).execute()
}
