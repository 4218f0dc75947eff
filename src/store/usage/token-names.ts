import { NO_TOKEN, NO_TOKEN_NAME } from '../../domain/token.ts'
import { listed } from '../engine/page.ts'
import type { Db, Trx } from '../engine/store.ts'

// Usage rows carry the name that their token had, and outlive both. They are found by token: an index of names would cost
// every request.

/** Writes down what a token is called now; what it was called before stays. */
export async function noteName(trx: Trx, tokenId: number): Promise<void> {
  await trx
    .insertInto('token_names')
    .columns(['token_id', 'name', 'user_id'])
    .expression(of => of.selectFrom('tokens').select(['id', 'name', 'user_id']).where('id', '=', tokenId))
    .onConflict(conflict => conflict.columns(['token_id', 'name']).doNothing())
    .execute()
}

/** Whose tokens they are or were; undefined where one of them is nobody's. */
export async function tokenOwners(db: Db, ids: readonly number[]): Promise<number[] | undefined> {
  const rows = await db
    .selectFrom('token_names')
    .select(['token_id', 'user_id'])
    .distinct()
    .where('token_id', 'in', listed(ids))
    .execute()
  const owners = new Map(rows.map(({ token_id, user_id }) => [token_id, user_id]))
  return owners.size === new Set(ids).size && ids.length > 0 ? [...new Set(owners.values())] : undefined
}

export type NamedTokens = {
  readonly ids: readonly number[]
  /** None of them was ever called anything else: their rows are those of the name. */
  readonly isOnlyName: boolean
}

/** The tokens, of one user or of all, that are or were called so; undefined where they are more than `limit`. */
export async function tokensNamed(
  db: Db,
  { name, userId }: { readonly name: string; readonly userId: number | undefined },
  limit: number,
): Promise<NamedTokens | undefined> {
  let named = db.selectFrom('token_names').select('token_id').where('name', '=', name)
  if (userId !== undefined) named = named.where('user_id', '=', userId)
  const rows = await named.limit(limit + 1).execute()
  if (rows.length > limit) return undefined
  const ids = rows.map(({ token_id }) => token_id)
  const another = await db
    .selectFrom('token_names')
    .select('token_id')
    .where('token_id', 'in', listed(ids))
    .where('name', '<>', name)
    .limit(1)
    .executeTakeFirst()
  const isPlayground = name === NO_TOKEN_NAME
  return {
    ids: isPlayground ? [...ids, NO_TOKEN] : ids,
    isOnlyName: another === undefined && !isPlayground,
  }
}
