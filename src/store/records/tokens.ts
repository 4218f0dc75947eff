import { fold } from '../../domain/text.ts'
import {
  boundedCount,
  containing,
  like,
  literal,
  nonEmptyIds,
  type Page,
  type Paging,
  pageOf,
} from '../engine/page.ts'
import type { AccountRow, TokenRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'
import { recordName } from '../usage/token-names.ts'

export type TokenWithAccount = TokenRow & Pick<AccountRow, 'unlimited' | 'credited' | 'posted' | 'held'>

const withAccount = (db: Db) =>
  db
    .selectFrom('tokens')
    .innerJoin('accounts', join =>
      join.onRef('accounts.owner_id', '=', 'tokens.id').on('accounts.kind', '=', 'token'),
    )
    .selectAll('tokens')
    .select(['accounts.unlimited', 'accounts.credited', 'accounts.posted', 'accounts.held'])

/** A token of another user is not found: the owner is part of every look-up. */
export const findToken = (db: Db, userId: number, id: number): Promise<TokenWithAccount | undefined> =>
  withAccount(db).where('tokens.id', '=', id).where('tokens.user_id', '=', userId).executeTakeFirst()

export const findTokens = (db: Db, userId: number, ids: readonly number[]): Promise<TokenWithAccount[]> =>
  withAccount(db).where('tokens.id', 'in', nonEmptyIds(ids)).where('tokens.user_id', '=', userId).execute()

export const findTokenByDigest = (db: Db, digest: string): Promise<TokenWithAccount | undefined> =>
  withAccount(db).where('tokens.key_digest', '=', digest).executeTakeFirst()

type TokenFilter = {
  readonly keyword?: string | undefined
  readonly digest?: string | undefined
  /** The visible start and end of a key. */
  readonly hint?: { readonly head: string; readonly tail: string } | undefined
}

export async function listTokens(
  db: Db,
  userId: number,
  filter: TokenFilter,
  paging: Paging,
): Promise<Page<TokenWithAccount>> {
  let ids = db.selectFrom('tokens').select('tokens.id').where('tokens.user_id', '=', userId)
  if (filter.keyword) ids = ids.where(like('tokens.search', containing(fold(filter.keyword))))
  if (filter.digest) ids = ids.where('tokens.key_digest', '=', filter.digest)
  const { hint } = filter
  if (hint) ids = ids.where(like('tokens.key_hint', `${literal(hint.head)}%…%${literal(hint.tail)}`))
  const page = await pageOf(ids.orderBy('tokens.id', 'desc'), boundedCount(db, ids), paging)
  const rows = await withAccount(db)
    .where('tokens.id', 'in', nonEmptyIds(page.items.map(row => row.id)))
    .orderBy('tokens.id', 'desc')
    .execute()
  return { items: rows, total: page.total }
}

export type NewToken = Omit<TokenRow, 'id' | 'search' | 'accessed_time' | 'log_bodies'> &
  Partial<Pick<TokenRow, 'log_bodies'>>

export async function insertToken(trx: Trx, token: NewToken): Promise<number> {
  const { id } = await trx
    .insertInto('tokens')
    .values({ ...token, search: fold(token.name), accessed_time: token.created_time })
    .returning('id')
    .executeTakeFirstOrThrow()
  await recordName(trx, id)
  return id
}

export type TokenChange = Partial<
  Pick<
    TokenRow,
    | 'name'
    | 'status'
    | 'expired_time'
    | 'model_limits_enabled'
    | 'models'
    | 'allow_ips'
    | 'limits'
    | 'token_group'
    | 'key_sealed'
    | 'log_bodies'
  >
>

export async function updateToken(trx: Trx, id: number, change: TokenChange): Promise<void> {
  const search = change.name === undefined ? {} : { search: fold(change.name) }
  if (Object.keys(change).length === 0) return
  await trx
    .updateTable('tokens')
    .set({ ...change, ...search })
    .where('id', '=', id)
    .execute()
  if (change.name !== undefined) await recordName(trx, id)
}

/** Deletes tokens. Their accounts and entries are kept, because the ledger is append-only. */
export async function deleteTokens(trx: Trx, userId: number, ids: readonly number[]): Promise<number> {
  const { numDeletedRows } = await trx
    .deleteFrom('tokens')
    .where('user_id', '=', userId)
    .where('id', 'in', nonEmptyIds(ids))
    .executeTakeFirst()
  return Number(numDeletedRows)
}

export async function countTokens(db: Db, userId: number): Promise<number> {
  return boundedCount(db, db.selectFrom('tokens').select('id').where('user_id', '=', userId))
}
