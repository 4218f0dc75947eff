import { ALIAS_STATUS } from '../../domain/alias.ts'
import { fold } from '../../domain/text.ts'
import {
  boundedCount,
  containing,
  like,
  nonEmptyIds,
  type Page,
  type Paging,
  pageOf,
} from '../engine/page.ts'
import type { AliasRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

/** The text that searches match. */
const searchText = ({ name, target }: Pick<AliasRow, 'name' | 'target'>) => fold(`${name} ${target}`)

export const findAlias = (db: Db, id: number): Promise<AliasRow | undefined> =>
  db.selectFrom('aliases').selectAll().where('id', '=', id).executeTakeFirst()

export const findAliasByName = (db: Db, name: string): Promise<AliasRow | undefined> =>
  db.selectFrom('aliases').selectAll().where('name', '=', name).executeTakeFirst()

export const findAliases = (db: Db, ids: readonly number[]): Promise<AliasRow[]> =>
  ids.length === 0
    ? Promise.resolve([])
    : db.selectFrom('aliases').selectAll().where('id', 'in', nonEmptyIds(ids)).execute()

export async function listAliases(
  db: Db,
  keyword: string | undefined,
  paging: Paging,
): Promise<Page<AliasRow>> {
  let query = db.selectFrom('aliases')
  if (keyword !== undefined) query = query.where(like('aliases.search', containing(fold(keyword))))
  const items = query.selectAll().orderBy('aliases.id', 'desc')
  return pageOf(items, boundedCount(db, query.select('aliases.id')), paging)
}

export type EnabledAlias = {
  readonly name: string
  readonly target: string
  /** Null or empty: any channel. */
  readonly channelIds: readonly number[] | null
}

/** Every alias of status 1, by name. */
export async function listEnabledAliases(db: Db): Promise<EnabledAlias[]> {
  const rows = await db
    .selectFrom('aliases')
    .select(['name', 'target', 'channel_ids'])
    .where('status', '=', ALIAS_STATUS.enabled)
    .orderBy('name')
    .execute()
  return rows.map(({ name, target, channel_ids }) => ({
    name,
    target,
    channelIds: channel_ids === null ? null : (JSON.parse(channel_ids) as number[]),
  }))
}

/** The target of every alias, disabled ones included: enabling an alias later must not create a loop. */
export async function aliasTargets(db: Db): Promise<Map<string, string>> {
  const rows = await db.selectFrom('aliases').select(['name', 'target']).execute()
  return new Map(rows.map(({ name, target }) => [name, target]))
}

type NewAlias = Omit<AliasRow, 'id' | 'search'>

export async function insertAlias(trx: Trx, alias: NewAlias): Promise<number> {
  const { id } = await trx
    .insertInto('aliases')
    .values({ ...alias, search: searchText(alias) })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export type AliasChange = Partial<Pick<AliasRow, 'name' | 'target' | 'channel_ids' | 'status'>>

export async function updateAlias(trx: Trx, current: AliasRow, change: AliasChange): Promise<void> {
  await trx
    .updateTable('aliases')
    .set({ ...change, search: searchText({ ...current, ...change }) })
    .where('id', '=', current.id)
    .execute()
}

export async function deleteAlias(trx: Trx, id: number): Promise<void> {
  await trx.deleteFrom('aliases').where('id', '=', id).execute()
}
