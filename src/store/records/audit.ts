import { SYSTEM } from '../../domain/actor.ts'
import { chainKeyOf } from '../books/chain-key.ts'
import { AUDIT_CHAIN, appendLink } from '../books/chains.ts'
import { boundedCount, type Page, type Paging, pageOf } from '../engine/page.ts'
import { type RowState, stateOfTarget } from '../engine/row-states.ts'
import type { AuditRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

export type AuditRecord = Omit<AuditRow, 'seq' | 'hash' | 'state'>

/** Every field of a record that was written before chains had a key, in the order in which the chain digests them. */
export const unkeyedAuditFields = (row: Omit<AuditRow, 'hash' | 'state'>) => [
  row.seq,
  row.time,
  row.actor_id,
  row.actor_name,
  row.via,
  row.address,
  row.request_id,
  row.action,
  row.target,
  row.before,
  row.after,
]

/** Every field of a record, in the order in which the chain digests them. */
export const auditFields = (row: Omit<AuditRow, 'hash'>) => [...unkeyedAuditFields(row), row.state]

const json = (states: readonly RowState[]) => (states.length === 0 ? null : JSON.stringify(states))

/** Appends a record with the current state of its target, or with the passed states. Returns its sequence number. */
export async function appendAudit(
  trx: Trx,
  record: AuditRecord,
  states?: readonly RowState[],
): Promise<number> {
  let state: string | null = null
  const { seq, hash } = await appendLink(trx, AUDIT_CHAIN, async next => {
    // Read under the chain's lock, so that after two changes of one row the later record has the later state.
    state = json(states ?? (await stateOfTarget(trx, chainKeyOf(trx), record.target)))
    return auditFields({ ...record, seq: next, state })
  })
  await trx
    .insertInto('audit')
    .values({ ...record, seq, hash, state })
    .execute()
  return seq
}

type SystemRecord = Pick<AuditRecord, 'time' | 'action' | 'target'> & { readonly after?: unknown }

/** Records an action of the gateway itself. */
export const appendSystemAudit = (
  trx: Trx,
  { after, ...record }: SystemRecord,
  states?: readonly RowState[],
): Promise<number> =>
  appendAudit(
    trx,
    {
      ...record,
      actor_id: 0,
      actor_name: SYSTEM,
      via: 'gateway',
      address: '',
      request_id: '',
      before: null,
      after: after === undefined ? null : JSON.stringify(after),
    },
    states,
  )

type AuditFilter = {
  actorId?: number | undefined
  action?: string | undefined
  target?: string | undefined
  /** Both times are inclusive. */
  from?: number | undefined
  to?: number | undefined
}

export async function listAudit(db: Db, filter: AuditFilter, paging: Paging): Promise<Page<AuditRow>> {
  let query = db.selectFrom('audit')
  if (filter.actorId !== undefined) query = query.where('actor_id', '=', filter.actorId)
  if (filter.action !== undefined) query = query.where('action', '=', filter.action)
  if (filter.target !== undefined) query = query.where('target', '=', filter.target)
  if (filter.from !== undefined) query = query.where('time', '>=', filter.from)
  if (filter.to !== undefined) query = query.where('time', '<=', filter.to)
  const items = query.selectAll().orderBy('seq', 'desc')
  return pageOf(items, boundedCount(db, query.select('seq')), paging)
}

/** The next records of the audit chain, in its order. */
export const auditAfter = (db: Db, seq: number, limit: number) =>
  db.selectFrom('audit').selectAll().where('seq', '>', seq).orderBy('seq').limit(limit).execute()
