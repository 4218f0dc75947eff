import { AUDIT_CHAIN, appendLink } from './chains.ts'
import { boundedCount, type Page, type Paging, pageOf } from './page.ts'
import type { AuditRow } from './schema.ts'
import type { Db, Trx } from './store.ts'

export type AuditRecord = Omit<AuditRow, 'seq' | 'hash'>

/** Every field of a record, in the order the chain digests them. */
export const auditFields = (row: Omit<AuditRow, 'hash'>) => [
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

export async function appendAudit(trx: Trx, record: AuditRecord): Promise<void> {
  const { seq, hash } = await appendLink(trx, AUDIT_CHAIN, next => auditFields({ ...record, seq: next }))
  await trx
    .insertInto('audit')
    .values({ ...record, seq, hash })
    .execute()
}

export type AuditFilter = {
  actorId?: number | undefined
  action?: string | undefined
  target?: string | undefined
  /** Both moments belong to the stretch. */
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

/** A stretch of the log in its own order, for walking the chain. */
export const auditAfter = (db: Db, seq: number, limit: number) =>
  db.selectFrom('audit').selectAll().where('seq', '>', seq).orderBy('seq').limit(limit).execute()
