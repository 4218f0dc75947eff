import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { type Db, transact } from '../engine/store.ts'

type Bucket = { readonly failures: number; readonly lastMs: number; readonly blockedUntilMs: number }

/** Longer than any failure counts. */
const KEEP_MS = 2 * 3600 * 1000
const REMOVED_AT_ONCE = 100

/** Names that people try to sign in with may be passwords, so only their digests are stored. */
const digestOf = (key: string) => createHash('sha256').update(key).digest('base64url')

/** Changes buckets of failed sign-ins in one transaction. PostgreSQL only: an embedded store has one gateway. */
export async function changeFailures(
  db: Db,
  keys: readonly string[],
  work: (buckets: readonly (Bucket | undefined)[], nowMs: number) => readonly (Bucket | undefined)[],
): Promise<void> {
  const names = keys.map(digestOf)
  await transact(db, async trx => {
    // A lock for each bucket, in the same order everywhere. A row that does not exist yet could not be locked.
    for (const name of names.toSorted())
      await sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`.execute(trx)
    const { rows: times } = await sql<{
      now_ms: number
    }>`select (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms`.execute(trx)
    const nowMs = times[0]?.now_ms ?? 0
    const rows = await trx.selectFrom('sign_in_failures').selectAll().where('bucket', 'in', names).execute()
    const before = names.map(name => {
      const row = rows.find(({ bucket }) => bucket === name)
      return row && { failures: row.failures, lastMs: row.last_ms, blockedUntilMs: row.blocked_until_ms }
    })
    const after = work(before, nowMs)
    for (const [index, bucket] of after.entries()) {
      const name = names[index] as string
      if (bucket === before[index]) continue
      if (!bucket) {
        await trx.deleteFrom('sign_in_failures').where('bucket', '=', name).execute()
        continue
      }
      const columns = {
        failures: bucket.failures,
        last_ms: bucket.lastMs,
        blocked_until_ms: bucket.blockedUntilMs,
      }
      await trx
        .insertInto('sign_in_failures')
        .values({ bucket: name, ...columns })
        .onConflict(conflict => conflict.column('bucket').doUpdateSet(columns))
        .execute()
    }
    // Each attempt removes more rows than it adds, so the table stays small.
    await sql`delete from sign_in_failures where bucket in (
      select bucket from sign_in_failures where last_ms < ${nowMs - KEEP_MS} limit ${REMOVED_AT_ONCE}
      for update skip locked)`.execute(trx)
  })
}
