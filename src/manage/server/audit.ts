import type { FastifyRequest } from 'fastify'
import type { AuditRow } from '../../store/engine/schema.ts'
import type { Trx } from '../../store/engine/store.ts'
import { appendAudit, listAudit } from '../../store/records/audit.ts'
import type { auditContract } from '../contract/audit.ts'
import type { AuditNote, Handlers } from './call.ts'
import type { Deps } from './deps.ts'
import { presentPage } from './page.ts'

const json = (value: unknown) => (value === undefined ? null : JSON.stringify(value))

export async function auditRecord(
  trx: Trx,
  request: FastifyRequest,
  note: AuditNote,
  time: number,
): Promise<number> {
  const { actor, address } = request.caller
  const who = note.actor ?? actor
  return appendAudit(trx, {
    time,
    actor_id: who?.id ?? 0,
    actor_name: who?.username ?? '',
    via: actor ? `${actor.via}:${actor.credentialId}` : 'password',
    address,
    request_id: request.id,
    action: note.action,
    target: note.target,
    before: json(note.before),
    after: json(note.after),
  })
}

const parsed = (text: string | null) => (text === null ? null : (JSON.parse(text) as unknown))

/** A record as `/api/audit/` returns it. */
export const presentAuditRecord = ({ state: _state, ...row }: AuditRow) => ({
  ...row,
  before: parsed(row.before),
  after: parsed(row.after),
})

export function createAuditHandlers({ db }: Deps): Handlers<typeof auditContract> {
  return {
    listAudit: async ({ query: { paging, actor_id, start_timestamp, end_timestamp, ...filters } }) => {
      const filter = { ...filters, actorId: actor_id, from: start_timestamp, to: end_timestamp }
      return presentPage(await listAudit(db, filter, paging), paging, presentAuditRecord)
    },
  }
}
