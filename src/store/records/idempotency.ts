import { IDEMPOTENCY_LIFETIME_S } from '../../domain/idempotency.ts'
import type { Db, Trx } from '../engine/store.ts'

export type Repeat = { readonly userId: number; readonly path: string; readonly key: string }

const rowOf = ({ userId, path, key }: Repeat) => ({ user_id: userId, path, key })

/** The place that a saved answer is sealed to. */
export const answerPlace = ({ userId, path, key }: Repeat) => ({
  table: 'idempotency',
  row: `${userId} ${path} ${key}`,
  field: 'answer',
})

export const findAnswer = (db: Db, repeat: Repeat, now: number) =>
  db
    .selectFrom('idempotency')
    .select(['body_digest', 'answer_sealed', 'created_time'])
    .where(({ and }) => and(rowOf(repeat)))
    .where('created_time', '>', now - IDEMPOTENCY_LIFETIME_S)
    .executeTakeFirst()

/** Saves the response in the transaction of the change itself, so that a crash cannot separate them. */
export async function saveAnswer(
  trx: Trx,
  repeat: Repeat,
  answer: { bodyDigest: string; sealed: string; now: number },
): Promise<void> {
  await trx
    .deleteFrom('idempotency')
    .where('created_time', '<=', answer.now - IDEMPOTENCY_LIFETIME_S)
    .execute()
  await trx
    .insertInto('idempotency')
    .values({
      ...rowOf(repeat),
      body_digest: answer.bodyDigest,
      answer_sealed: answer.sealed,
      created_time: answer.now,
    })
    .execute()
}

/** Claims the key before the work is done; fails if the key is in use. */
export async function claimAnswer(
  db: Db,
  repeat: Repeat,
  claim: { bodyDigest: string; sealed: string; now: number },
): Promise<void> {
  await db
    .insertInto('idempotency')
    .values({
      ...rowOf(repeat),
      body_digest: claim.bodyDigest,
      answer_sealed: claim.sealed,
      created_time: claim.now,
    })
    .execute()
}

/** Replaces the sealed text `from` by `to`. Returns whether the row still had it. */
export async function replaceAnswer(
  db: Db,
  repeat: Repeat,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('idempotency')
    .set({ answer_sealed: to })
    .where(({ and }) => and(rowOf(repeat)))
    .where('answer_sealed', '=', from)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Deletes a key if it still has this sealed text. Returns whether it had. */
export async function dropAnswer(db: Db, repeat: Repeat, sealed: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('idempotency')
    .where(({ and }) => and(rowOf(repeat)))
    .where('answer_sealed', '=', sealed)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

/** Deletes a key if it has expired. */
export async function dropExpired(db: Db, repeat: Repeat, now: number): Promise<void> {
  await db
    .deleteFrom('idempotency')
    .where(({ and }) => and(rowOf(repeat)))
    .where('created_time', '<=', now - IDEMPOTENCY_LIFETIME_S)
    .execute()
}
