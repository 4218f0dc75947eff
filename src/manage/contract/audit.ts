import { z } from 'zod'
import { paged, pageOf, queryNumber, queryText } from './fields.ts'
import type { Contract } from './route.ts'

const auditView = z
  .object({
    seq: z.int(),
    time: z.int(),
    actor_id: z.int(),
    actor_name: z.string(),
    via: z.string(),
    address: z.string(),
    request_id: z.string(),
    action: z.string(),
    target: z.string(),
    before: z.unknown(),
    after: z.unknown(),
    hash: z.string(),
  })
  .meta({ id: 'AuditRecord' })

export const auditContract = {
  listAudit: {
    method: 'GET',
    path: '/api/audit/',
    access: 'admin',
    summary: 'Audit records, newest first',
    query: paged({
      actor_id: queryNumber,
      action: queryText,
      target: queryText,
      start_timestamp: queryNumber,
      end_timestamp: queryNumber,
    }),
    data: pageOf(auditView),
  },
} as const satisfies Contract
