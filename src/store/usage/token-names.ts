import { NO_TOKEN, NO_TOKEN_NAME } from '../../domain/token.ts'
import { nonEmptyIds } from '../engine/page.ts'
import type { Db, Trx } from '../engine/store.ts'

// Usage rows have the name of their token at that time, and outlive both. They are looked up by token, because an index of
// names would slow down every request.

/** Records the current name of a token; earlier names stay. */
export const recordName = (trx: Trx, tokenId: number): Promise<void> => recordNames(trx, [tokenId])

export async function recordNames(trx: Trx, tokenIds: readonly number[]): Promise<void> {
  await trx
    .insertInto('token_names')
    .columns(['token_id', 'name', 'user_id'])
    .expression(of =>
      of.selectFrom('tokens').select(['id', 'name', 'user_id']).where('id', 'in', nonEmptyIds(tokenIds)),
    )
    .onConflict(conflict => conflict.columns(['token_id', 'name']).doNothing())
    .execute()
}

/** The owners of the tokens, deleted ones included; undefined if a token has no owner on record. */
export async function tokenOwners(db: Db, ids: readonly number[]): Promise<number[] | undefined> {
  const rows = await db
    .selectFrom('token_names')
    .select(['token_id', 'user_id'])
    .distinct()
    .where('token_id', 'in', nonEmptyIds(ids))
    .execute()
  const owners = new Map(rows.map(({ token_id, user_id }) => [token_id, user_id]))
  return owners.size === new Set(ids).size && ids.length > 0 ? [...new Set(owners.values())] : undefined
}

type NamedTokens = {
  readonly ids: readonly number[]
  /** None of them ever had another name, so all their rows have this name. */
  readonly isOnlyName: boolean
}

/** The tokens, of one user or of all, that have or had this name; undefined if there are more than `limit`. */
export async function tokensNamed(
  db: Db,
  { name, userId }: { readonly name: string; readonly userId: number | undefined },
  limit: number,
): Promise<NamedTokens | undefined> {
  let matches = db.selectFrom('token_names').select('token_id').where('name', '=', name)
  if (userId !== undefined) matches = matches.where('user_id', '=', userId)
  const rows = await matches.limit(limit + 1).execute()
  if (rows.length > limit) return undefined
  const ids = rows.map(({ token_id }) => token_id)
  const another = await db
    .selectFrom('token_names')
    .select('token_id')
    .where('token_id', 'in', nonEmptyIds(ids))
    .where('name', '<>', name)
    .limit(1)
    .executeTakeFirst()
  const isPlayground = name === NO_TOKEN_NAME
  return {
    ids: isPlayground ? [...ids, NO_TOKEN] : ids,
    isOnlyName: another === undefined && !isPlayground,
  }
}
