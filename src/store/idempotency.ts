import type { Db, Trx } from './store.ts'

/** Saved answers live for a day (contract 4, repeating). */
export const ANSWER_KEEP_S = 24 * 3600

export type Repeat = { readonly userId: number; readonly path: string; readonly key: string }

export const findAnswer = (db: Db, { userId, path, key }: Repeat, now: number) =>
  db
    .selectFrom('idempotency')
    .select(['body_digest', 'answer_sealed'])
    .where('user_id', '=', userId)
    .where('path', '=', path)
    .where('key', '=', key)
    .where('created_time', '>', now - ANSWER_KEEP_S)
    .executeTakeFirst()

/** In the transaction of the change itself: either both are there after a crash, or neither. */
export async function saveAnswer(
  trx: Trx,
  { userId, path, key }: Repeat,
  answer: { bodyDigest: string; sealed: string; now: number },
): Promise<void> {
  await trx
    .deleteFrom('idempotency')
    .where('created_time', '<=', answer.now - ANSWER_KEEP_S)
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
