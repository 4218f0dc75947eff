import { IDEMPOTENCY_LIFETIME_S } from '../../domain/idempotency.ts'
import type { Db, Trx } from '../engine/store.ts'

export type Repeat = { readonly userId: number; readonly path: string; readonly key: string }

/** The place that a saved answer is sealed to. */
export const answerPlace = ({ userId, path, key }: Repeat) => ({
  table: 'idempotency',
  row: `${userId} ${path} ${key}`,
  field: 'answer',
})

export const findAnswer = (db: Db, { userId, path, key }: Repeat, now: number) =>
  db
    .selectFrom('idempotency')
    .select(['body_digest', 'answer_sealed', 'created_time'])
    .where('user_id', '=', userId)
    .where('path', '=', path)
    .where('key', '=', key)
    .where('created_time', '>', now - IDEMPOTENCY_LIFETIME_S)
    .executeTakeFirst()

/** Saves the response in the transaction of the change itself, so that a crash cannot separate them. */
export async function saveAnswer(
  trx: Trx,
  { userId, path, key }: Repeat,
  answer: { bodyDigest: string; sealed: string; now: number },
): Promise<void> {
  await trx
    .deleteFrom('idempotency')
    .where('created_time', '<=', answer.now - IDEMPOTENCY_LIFETIME_S)
    .execute()
  await trx
    .insertInto('idempotency')
    .values({
      user_id: userId,
      path,
      key,
      body_digest: answer.bodyDigest,
      answer_sealed: answer.sealed,
      created_time: answer.now,
    })
    .execute()
}

/** Claims the key before the work is done; fails if the key is in use. */
export async function claimAnswer(
  db: Db,
  { userId, path, key }: Repeat,
  claim: { bodyDigest: string; sealed: string; now: number },
): Promise<void> {
  await db
    .insertInto('idempotency')
    .values({
      user_id: userId,
      path,
      key,
      body_digest: claim.bodyDigest,
      answer_sealed: claim.sealed,
      created_time: claim.now,
    })
    .execute()
}

/** Replaces the claim by the answer. */
export async function replaceAnswer(db: Db, { userId, path, key }: Repeat, sealed: string): Promise<void> {
  await db
    .updateTable('idempotency')
    .set({ answer_sealed: sealed })
    .where('user_id', '=', userId)
    .where('path', '=', path)
    .where('key', '=', key)
    .execute()
}

/** Deletes a key; with `now`, only if it has expired. */
export async function dropAnswer(db: Db, { userId, path, key }: Repeat, now?: number): Promise<void> {
  const row = db
    .deleteFrom('idempotency')
    .where('user_id', '=', userId)
    .where('path', '=', path)
    .where('key', '=', key)
  await (now === undefined ? row : row.where('created_time', '<=', now - IDEMPOTENCY_LIFETIME_S)).execute()
}
