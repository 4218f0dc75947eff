import type { AlertRule, RuleOptions } from '../../domain/alert.ts'
import { boundedCount, type Page, type Paging, pageOf } from '../engine/page.ts'
import type { AlertRuleRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

export const optionsOfRule = (row: Pick<AlertRuleRow, 'options'>) => JSON.parse(row.options) as RuleOptions

export const findRule = (db: Db, id: number): Promise<AlertRuleRow | undefined> =>
  db.selectFrom('alert_rules').selectAll().where('id', '=', id).executeTakeFirst()

/** In the order of their creation. */
export const listRules = (db: Db, paging: Paging): Promise<Page<AlertRuleRow>> => {
  const query = db.selectFrom('alert_rules')
  return pageOf(query.selectAll().orderBy('id'), boundedCount(db, query.select('id')), paging)
}

export async function enabledRules(db: Db): Promise<AlertRule[]> {
  const rows = await db.selectFrom('alert_rules').selectAll().where('enabled', '=', 1).orderBy('id').execute()
  return rows.map(row => ({ id: row.id, name: row.name, kind: row.kind, ...optionsOfRule(row) }))
}

export async function insertRule(trx: Trx, rule: Omit<AlertRuleRow, 'id'>): Promise<number> {
  const { id } = await trx.insertInto('alert_rules').values(rule).returning('id').executeTakeFirstOrThrow()
  return id
}

export type RuleChange = Partial<Pick<AlertRuleRow, 'name' | 'enabled' | 'options'>>

export async function updateRule(trx: Trx, id: number, change: RuleChange): Promise<void> {
  await trx.updateTable('alert_rules').set(change).where('id', '=', id).execute()
}

/** Deletes a rule with the states of its alerts. */
export async function deleteRule(trx: Trx, id: number): Promise<void> {
  await trx.deleteFrom('alert_states').where('rule_id', '=', id).execute()
  await trx.deleteFrom('alert_rules').where('id', '=', id).execute()
}
