import { sql } from 'kysely'
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
import { recordName, recordNames } from '../usage/token-names.ts'

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

/** The token that one of these digests belongs to. */
export const findTokenByDigest = (
  db: Db,
  digests: readonly string[],
): Promise<TokenWithAccount | undefined> =>
  withAccount(db).where('tokens.key_digest', 'in', digests).executeTakeFirst()

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

/** Inserts many tokens; their values are encrypted for the ids of their rows. Returns the ids in the order of the tokens. */
export async function insertTokens(
  trx: Trx,
  tokens: readonly Omit<NewToken, 'key_sealed'>[],
  seal: (id: number, index: number) => string,
): Promise<number[]> {
  if (tokens.length === 0) return []
  const rows = await trx
    .insertInto('tokens')
    .values(
      tokens.map(token => ({
        ...token,
        key_sealed: '',
        search: fold(token.name),
        accessed_time: token.created_time,
      })),
    )
    .returning('id')
    .execute()
  // Ids are assigned in the order of the rows, but neither engine guarantees to return them in it.
  const ids = rows.map(row => row.id).sort((a, b) => a - b)
  const sealed = ids.map((id, index) => sql`(cast(${id} as bigint), ${seal(id, index)})`)
  await trx
    .with('made(id, sealed)', () => sql<{ id: number; sealed: string }>`(values ${sql.join(sealed)})`)
    .updateTable('tokens')
    .from('made')
    .set(row => ({ key_sealed: row.ref('made.sealed') }))
    .whereRef('tokens.id', '=', 'made.id')
    .execute()
  await recordNames(trx, ids)
  return ids
}

/** Which of the digests belong to a token already. */
export async function findTokenDigests(db: Db, digests: readonly string[]): Promise<Map<string, number>> {
  if (digests.length === 0) return new Map()
  const rows = await db
    .selectFrom('tokens')
    .select(['key_digest', 'id'])
    .where('key_digest', 'in', digests)
    .execute()
  return new Map(rows.map(row => [row.key_digest, row.id]))
}

/** Tokens by their ids, of any user. */
export const findTokensById = (db: Db, ids: readonly number[]): Promise<TokenWithAccount[]> =>
  withAccount(db)
    .where('tokens.id', 'in', nonEmptyIds(ids))
    // Without statistics, as after an import, PostgreSQL would scan all accounts for each token.
    .where('accounts.owner_id', 'in', nonEmptyIds(ids))
    .execute()

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
