import { type Expression, type ExpressionBuilder, expressionBuilder, sql } from 'kysely'
import type { Price } from '../../domain/price.ts'
import { fold } from '../../domain/text.ts'
import { lockAuditChain } from '../books/chains.ts'
import {
  boundedCount,
  containing,
  like,
  nonEmptyIds,
  type Page,
  type Paging,
  pageOf,
} from '../engine/page.ts'
import type { Database, PriceRow } from '../engine/schema.ts'
import { type Db, type Trx, transact } from '../engine/store.ts'
import { appendSystemAudit } from './audit.ts'

/** A version of a model's price, with the name of its author. */
export type PriceVersion = PriceRow & { readonly author_name: string | null }

/** The price that the relay charges, with its version. */
type PriceInForce = { readonly id: number; readonly version: number; readonly price: Price }

const withAuthor = (db: Db) =>
  db
    .selectFrom('prices')
    .leftJoin('users', 'users.id', 'prices.author_id')
    .selectAll('prices')
    .select('users.username as author_name')

/**
 * The id of a model's version in force: of those that have not ended, the one that came into force last. A version whose
 * effective time has come counts even before its activation is recorded; an activated version counts at any `now`.
 */
const idInForce = (
  row: ExpressionBuilder<Database, never>,
  model: Expression<string | null>,
  now: number,
) => {
  const versions = row
    .selectFrom('prices')
    .select('prices.id')
    .where('prices.model', '=', model as Expression<string>)
    .where('prices.ended_time', 'is', null)
    .limit(1)
  return row.fn.coalesce(
    versions
      .where('prices.activation', 'is', null)
      .where('prices.effective_time', '<=', now)
      .orderBy('prices.effective_time', 'desc')
      .orderBy('prices.version', 'desc'),
    versions.where('prices.activation', 'is not', null).orderBy('prices.activation', 'desc'),
  )
}

/**
 * The version in force of every model that has one. A model may have thousands of versions, so a loose index scan jumps
 * from each model to the next.
 */
const inForce = (db: Db, now: number) => {
  const current = db
    .withRecursive('names(model)', names =>
      names
        .selectFrom('prices')
        .select(({ fn }) => fn.min<string | null>('prices.model').as('model'))
        .where('prices.ended_time', 'is', null)
        .unionAll(
          names
            .selectFrom('names')
            .select(row =>
              row
                .selectFrom('prices')
                .select(({ fn }) => fn.min<string | null>('prices.model').as('next'))
                .where('prices.ended_time', 'is', null)
                .whereRef('prices.model', '>', 'names.model')
                .as('model'),
            )
            .where('names.model', 'is not', null),
        ),
    )
    .selectFrom('names')
    .select(row => idInForce(expressionBuilder<Database>(), row.ref('names.model'), now).as('id'))
  return db.selectFrom(current.as('current')).innerJoin('prices', 'prices.id', 'current.id')
}

const readStored = ({ id, version, price }: Pick<PriceRow, 'id' | 'version' | 'price'>): PriceInForce => ({
  id,
  version,
  price: JSON.parse(price) as Price,
})

/** Every administrator's price that is in force, by model. */
export async function pricesInForce(db: Db, now: number): Promise<Map<string, PriceInForce>> {
  const rows = await inForce(db, now)
    .select(['prices.model', 'prices.id', 'prices.version', 'prices.price'])
    .execute()
  return new Map(rows.map(row => [row.model, readStored(row)]))
}

/** A version that is not yet in force. */
type UpcomingPrice = PriceInForce & { readonly model: string; readonly effectiveTime: number }

/** Versions that come into force after `now` and up to `until`, in that order. */
export async function upcomingPrices(db: Db, now: number, until: number): Promise<UpcomingPrice[]> {
  const rows = await pending(db)
    .select(['model', 'id', 'version', 'price', 'effective_time'])
    .where('effective_time', '>', now)
    .where('effective_time', '<=', until)
    .execute()
  return rows.map(row => ({ ...readStored(row), model: row.model, effectiveTime: row.effective_time }))
}

const pending = (db: Db) =>
  db
    .selectFrom('prices')
    .where('ended_time', 'is', null)
    .where('activation', 'is', null)
    .orderBy('effective_time')
    .orderBy('id')

const dueAt = (db: Db, now: number) =>
  pending(db).select(['id', 'model', 'version']).where('effective_time', '<=', now)

/** Records which versions have come into force. They stay in force even if the clock is set back. */
export async function activateDuePrices(db: Db, now: number): Promise<void> {
  if ((await dueAt(db, now).limit(1).execute()).length === 0) return
  await transact(db, async trx => {
    // No version or activation number is assigned twice.
    await lockAuditChain(trx)
    for (const { id, model, version } of await dueAt(trx, now).execute()) {
      await activate(trx, id, model)
      const after = { model, version }
      await appendSystemAudit(trx, { time: now, action: 'price.activate', target: `price:${id}`, after })
    }
  })
}

const activate = async (trx: Trx, id: number, model: string) =>
  trx
    .updateTable('prices')
    .set({ activation: await nextActivation(trx, model) })
    .where('id', '=', id)
    .execute()

async function nextActivation(trx: Trx, model: string): Promise<number> {
  const last = await trx
    .selectFrom('prices')
    .select(({ fn }) => fn.max('activation').as('activation'))
    .where('model', '=', model)
    .executeTakeFirst()
  return Number(last?.activation ?? 0) + 1
}

export const findPriceInForce = (db: Db, model: string, now: number): Promise<PriceVersion | undefined> =>
  withAuthor(db)
    .where('prices.id', '=', idInForce(expressionBuilder<Database>(), sql.val(model), now))
    .executeTakeFirst()

export const findPrice = (db: Db, id: number): Promise<PriceVersion | undefined> =>
  withAuthor(db).where('prices.id', '=', id).executeTakeFirst()

/** A version of a model's price, also if it is no longer in force. */
export async function findPriceVersion(db: Db, model: string, version: number): Promise<Price | undefined> {
  const row = await db
    .selectFrom('prices')
    .select('price')
    .where('model', '=', model)
    .where('version', '=', version)
    .executeTakeFirst()
  return row && (JSON.parse(row.price) as Price)
}

export type PriceFilter = { readonly model?: string | undefined; readonly keyword?: string | undefined }

/** The versions in force, by model name. */
export async function listPricesInForce(
  db: Db,
  { model, keyword }: PriceFilter,
  now: number,
  paging: Paging,
): Promise<Page<PriceVersion>> {
  if (model !== undefined) {
    const row = await findPriceInForce(db, model, now)
    const items = row?.search.includes(fold(keyword ?? '')) ? [row] : []
    return { items: paging.page === 1 ? items : [], total: items.length }
  }
  let ids = inForce(db, now).select('prices.id')
  if (keyword !== undefined) ids = ids.where(like('prices.search', containing(fold(keyword))))
  const page = await pageOf(ids.orderBy('prices.model'), boundedCount(db, ids), paging)
  const rows = await withAuthor(db)
    .where('prices.id', 'in', nonEmptyIds(page.items.map(row => row.id)))
    .orderBy('prices.model')
    .execute()
  return { items: rows, total: page.total }
}

/** The subset of these models that have an administrator's price in force. */
export async function pricedAmong(db: Db, models: readonly string[], now: number): Promise<Set<string>> {
  if (models.length === 0) return new Set()
  const rows = await inForce(db, now).select('prices.model').where('prices.model', 'in', models).execute()
  return new Set(rows.map(row => row.model))
}

/** Every version, ended ones included, newest first. */
export async function listPriceHistory(
  db: Db,
  model: string | undefined,
  paging: Paging,
): Promise<Page<PriceVersion>> {
  const ids = db.selectFrom('prices').select('prices.id')
  const ofModel = model === undefined ? ids : ids.where('prices.model', '=', model)
  // Ids and versions have the same order, but only versions have an index.
  const sorted = ofModel.orderBy(model === undefined ? 'prices.id' : 'prices.version', 'desc')
  const page = await pageOf(sorted, boundedCount(db, ofModel), paging)
  const rows = await withAuthor(db)
    .where('prices.id', 'in', nonEmptyIds(page.items.map(row => row.id)))
    .orderBy('prices.id', 'desc')
    .execute()
  return { items: rows, total: page.total }
}

export type NewPrice = {
  readonly model: string
  readonly price: Price
  readonly effectiveTime: number
  readonly time: number
  readonly authorId: number
}

/** Version numbers are never reused. A version without a future effective time is in force at once. */
export async function insertPrice(trx: Trx, { model, price, ...rest }: NewPrice): Promise<number> {
  await lockAuditChain(trx)
  // Versions that are due come into force before this one; the audit record of this one covers them too.
  for (const { id } of await dueAt(trx, rest.time).where('model', '=', model).execute())
    await activate(trx, id, model)
  const isInForce = rest.effectiveTime <= rest.time
  const last = await trx
    .selectFrom('prices')
    .select('version')
    .where('model', '=', model)
    .orderBy('version', 'desc')
    .limit(1)
    .executeTakeFirst()
  const { id } = await trx
    .insertInto('prices')
    .values({
      model,
      search: fold(model),
      version: (last?.version ?? 0) + 1,
      price: JSON.stringify(price),
      effective_time: rest.effectiveTime,
      created_time: rest.time,
      author_id: rest.authorId,
      ended_time: null,
      activation: isInForce ? await nextActivation(trx, model) : null,
    })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

/** Ends every version of a model, future ones included. Returns the number of ended versions. */
export async function endPrices(trx: Trx, model: string, time: number): Promise<number> {
  const { numUpdatedRows } = await trx
    .updateTable('prices')
    .set({ ended_time: time })
    .where('model', '=', model)
    .where('ended_time', 'is', null)
    .executeTakeFirst()
  return Number(numUpdatedRows)
}
