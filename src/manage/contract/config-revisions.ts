import { z } from 'zod'
import { idParams, optional, paged, pageOf, queryNumber, text } from './fields.ts'
import type { Contract } from './route.ts'

const revisionParams = z.object({ revision: idParams.shape.id })

const changeSummary = z.object({
  target: z.string().describe('`channel:7`, `price:gpt-4o`, `setting:attempts` …'),
  name: z.string(),
  action: z.enum(['create', 'update', 'delete']),
})

const revisionFields = {
  revision: z.int(),
  time: z.int(),
  author: z.object({ id: z.int(), username: z.string() }).describe('The id 0 is the gateway or a command'),
  via: z.string().describe('As in the audit log'),
  reason: z.string(),
}

const revisionView = z
  .object({ ...revisionFields, changes: z.array(changeSummary), change_count: z.int() })
  .meta({ id: 'ConfigRevision' })

const configChange = changeSummary
  .extend({
    fields: z
      .array(z.object({ path: z.string(), before: z.unknown().optional(), after: z.unknown().optional() }))
      .readonly(),
  })
  .meta({ id: 'ConfigChange' })

const wholeRevision = z
  .object({ ...revisionFields, changes: z.array(configChange), change_count: z.int() })
  .meta({ id: 'WholeConfigRevision' })

const rollbackView = z
  .object({
    changes: z.array(configChange),
    warnings: z.array(z.string()).describe('What cannot be restored, such as secrets'),
    revision: z.int().nullable().describe('The revision that was written; null if nothing changed'),
  })
  .meta({ id: 'ConfigRollback' })

/** Revisions of the configuration (docs/reference/configuration-file.md: Revisions). */
export const configContract = {
  listConfigRevisions: {
    method: 'GET',
    path: '/api/config/revision/',
    access: 'admin',
    summary: 'Revisions of the configuration, newest first; each lists at most 20 of its changes',
    query: paged({}),
    data: pageOf(revisionView),
  },
  getConfigRevision: {
    method: 'GET',
    path: '/api/config/revision/:revision',
    access: 'admin',
    summary: 'One revision with its changes, at most 1,000',
    params: revisionParams,
    data: wholeRevision,
  },
  diffConfigRevisions: {
    method: 'GET',
    path: '/api/config/revision/:revision/diff',
    access: 'admin',
    summary: 'What changed between this revision and another one; by default the last one',
    params: revisionParams,
    query: z.object({ to: queryNumber }),
    data: z.object({ from: z.int(), to: z.int(), changes: z.array(configChange) }),
  },
  rollbackConfig: {
    method: 'POST',
    path: '/api/config/revision/:revision/rollback',
    access: 'root',
    summary:
      'Restore the configuration of a revision, as a new revision. Money, usage, users and tokens stay',
    params: revisionParams,
    body: optional(
      z.object({
        reason: optional(text({ max: 200 })),
        dry_run: optional(z.boolean()).describe('True: returns the changes without making them'),
      }),
    ),
    data: rollbackView,
  },
} as const satisfies Contract
