import { sql } from 'kysely'
import { type Db, isLockTimeout, type Trx, transact } from '../engine/store.ts'

/** Statements of the gateway wait at most this long behind a change of a table. */
const LOCK_TIMEOUT_MS = 2_000
const MAX_TRIES = 5

/**
 * Runs a change of a table in one transaction. A long query may delay its locks, and then everything else waits behind it:
 * so it gives up soon and tries again after a pause.
 */
export async function withShortLock<Result>(
  db: Db,
  pause: () => Promise<void>,
  work: (trx: Trx) => Promise<Result>,
): Promise<Result> {
  for (let tries = 1; ; tries++)
    try {
      return await transact(db, async trx => {
        await sql`set local lock_timeout = ${sql.lit(LOCK_TIMEOUT_MS)}`.execute(trx)
        return work(trx)
      })
    } catch (error) {
      if (!isLockTimeout(error) || tries === MAX_TRIES) throw error
      await pause()
    }
}
