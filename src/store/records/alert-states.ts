import { MAX_SKEW_S } from '../../domain/clock-skew.ts'
import { nonEmptyIds } from '../engine/page.ts'
import type { AlertStateRow } from '../engine/schema.ts'
import type { Db, Engine, Trx } from '../engine/store.ts'

/** Alerts that fire, the newest first. */
export const listFiring = (db: Db, limit: number): Promise<AlertStateRow[]> =>
  db
    .selectFrom('alert_states')
    .selectAll()
    .where('fired_time', 'is not', null)
    .orderBy('fired_time', 'desc')
    .orderBy('rule_id')
    .orderBy('subject')
    .limit(limit)
    .execute()

const statesOf = (db: Db, ruleIds: readonly number[]) =>
  db.selectFrom('alert_states').selectAll().where('rule_id', 'in', nonEmptyIds(ruleIds))

/** The states of some rules. */
export const readStates = (db: Db, ruleIds: readonly number[]): Promise<AlertStateRow[]> =>
  statesOf(db, ruleIds).execute()

/** The same, locked until the transaction ends: two machines may evaluate at once. */
export const lockStates = (trx: Trx, engine: Engine, ruleIds: readonly number[]): Promise<AlertStateRow[]> =>
  // SQLite has one writer at a time.
  (engine === 'postgres' ? statesOf(trx, ruleIds).forUpdate() : statesOf(trx, ruleIds)).execute()

/** False if another machine has inserted the state first. */
export async function insertState(trx: Trx, state: AlertStateRow): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await trx
    .insertInto('alert_states')
    .values(state)
    .onConflict(conflict => conflict.columns(['rule_id', 'subject']).doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
}

export async function replaceState(trx: Trx, state: AlertStateRow): Promise<void> {
  const { rule_id: _rule, subject: _subject, ...values } = state
  await trx
    .insertInto('alert_states')
    .values(state)
    .onConflict(conflict => conflict.columns(['rule_id', 'subject']).doUpdateSet(values))
    .execute()
}

export async function updateState(trx: Trx, { rule_id, subject, ...state }: AlertStateRow): Promise<void> {
  await trx
    .updateTable('alert_states')
    .set(state)
    .where('rule_id', '=', rule_id)
    .where('subject', '=', subject)
    .execute()
}

export async function deleteState(
  trx: Trx,
  state: Pick<AlertStateRow, 'rule_id' | 'subject'>,
): Promise<void> {
  await trx
    .deleteFrom('alert_states')
    .where('rule_id', '=', state.rule_id)
    .where('subject', '=', state.subject)
    .execute()
}

/** Deletes the states of rules that are not in the list, without a message. */
export async function keepStatesOf(db: Db, ruleIds: readonly number[]): Promise<void> {
  const current = nonEmptyIds(ruleIds)
  const stale = db.selectFrom('alert_states').select('rule_id').where('rule_id', 'not in', current).limit(1)
  // Usually there are none, and reading does not occupy the writer.
  if ((await stale.executeTakeFirst()) === undefined) return
  await db.deleteFrom('alert_states').where('rule_id', 'not in', current).execute()
}

/** Takes or extends a lease. False if another machine has it. */
export async function takeLease(
  db: Db,
  { name, holder, now, untilTime }: { name: string; holder: string; now: number; untilTime: number },
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('alert_leases')
    .values({ name, holder, until_time: untilTime })
    .onConflict(conflict =>
      conflict
        .column('name')
        .doUpdateSet({ holder, until_time: untilTime })
        .where(where =>
          where.or([
            where('alert_leases.holder', '=', holder),
            where('alert_leases.until_time', '<', now),
            // The clock was set back since: no lease is so long.
            where('alert_leases.until_time', '>', untilTime + MAX_SKEW_S),
          ]),
        ),
    )
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
}

type LeaseTerm = { readonly holder: string; readonly untilTime: number }

export const readLease = (db: Db, name: string): Promise<LeaseTerm | undefined> =>
  db
    .selectFrom('alert_leases')
    .select(['holder', 'until_time as untilTime'])
    .where('name', '=', name)
    .executeTakeFirst()

/** False if the lease is not the previous one any more. */
export async function replaceLease(
  db: Db,
  name: string,
  previous: LeaseTerm | undefined,
  { holder, untilTime }: LeaseTerm,
): Promise<boolean> {
  if (!previous) {
    const { numInsertedOrUpdatedRows } = await db
      .insertInto('alert_leases')
      .values({ name, holder, until_time: untilTime })
      .onConflict(conflict => conflict.column('name').doNothing())
      .executeTakeFirst()
    return numInsertedOrUpdatedRows === 1n
  }
  const { numUpdatedRows } = await db
    .updateTable('alert_leases')
    .set({ holder, until_time: untilTime })
    .where('name', '=', name)
    .where('holder', '=', previous.holder)
    .where('until_time', '=', previous.untilTime)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

/** Ends a lease of this holder, so that another machine can take it at once. */
export async function releaseLease(db: Db, name: string, holder: string): Promise<void> {
  await db.deleteFrom('alert_leases').where('name', '=', name).where('holder', '=', holder).execute()
}
