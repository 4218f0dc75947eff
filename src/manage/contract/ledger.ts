import { z } from 'zod'
import { idParams, paged, pageOf, queryFlag, queryNumber, text } from './fields.ts'
import type { Contract } from './route.ts'

const suspenseView = z
  .object({
    id: z.int(),
    time: z.int(),
    request_id: z.string(),
    user_id: z.int(),
    token_id: z.int(),
    channel_id: z.int(),
    quota: z.int().describe('Units, rounded up'),
    cost: z.string().describe('Exact USD'),
    reason: z.string(),
    is_open: z.boolean(),
    closed_time: z.int().nullable(),
    closed_by: z.string().nullable(),
    closed_as: z.string().nullable(),
    closed_reason: z.string().nullable(),
  })
  .meta({ id: 'Suspense' })

export const entryView = z
  .object({
    chain: z.string(),
    seq: z.int(),
    time: z.int(),
    kind: z.enum(['grant', 'limit', 'settle', 'refund', 'keyed']),
    user_id: z.int(),
    token_id: z.int().nullable(),
    channel_id: z.int().nullable(),
    amount: z.string().describe('USD, exact to the nanodollar'),
    actor: z.string(),
    reason: z.string(),
    request_id: z.string().nullable(),
  })
  .meta({ id: 'LedgerEntry' })

export const ledgerContract = {
  verifyLedger: {
    method: 'GET',
    path: '/api/ledger/verify',
    access: 'admin',
    summary: 'Recompute every hash chain and every balance, and compare anchors, journals and rows with them',
    data: z.object({
      ok: z.boolean(),
      lines: z.array(z.string()),
      faults: z.array(z.string()).describe('The lines that report an error'),
    }),
  },
  listEntries: {
    method: 'GET',
    path: '/api/ledger/entries',
    access: 'admin',
    summary: 'Ledger entries of a user (default: yourself), newest first, or only those of a token',
    query: paged({ user_id: queryNumber, token_id: queryNumber }),
    data: pageOf(entryView),
  },
  ledgerHealth: {
    method: 'GET',
    path: '/api/ledger/health',
    access: 'admin',
    summary:
      'Open items of the ledger: leases, unresolved charges, and the applied position of each node’s journal',
    data: z.object({
      entries: z.int(),
      leased: z.string().describe('Leased amount that nodes may spend, exact USD'),
      suspense: z.object({
        open: z.int(),
        amount: z.string().describe('USD, exact'),
        oldest: z.int().nullable(),
      }),
      nodes: z.array(
        z.object({
          id: z.string(),
          started_time: z.int(),
          applied: z.int().describe('The last journal record that has been applied to the store'),
          leased: z.string().describe('USD, exact'),
          accounts: z.int().describe('With a lease'),
        }),
      ),
    }),
  },
  listSuspense: {
    method: 'GET',
    path: '/api/ledger/suspense',
    access: 'admin',
    summary:
      'Unresolved charges: responses that a provider may have billed but that were not delivered, newest first',
    query: paged({ open: queryFlag }),
    data: pageOf(suspenseView),
  },
  closeSuspense: {
    method: 'POST',
    path: '/api/ledger/suspense/:id',
    access: 'root',
    summary: 'Resolve a charge: write it off, or charge it to the user and token of the request',
    params: idParams,
    body: z.object({ action: z.enum(['write_off', 'charge']), reason: text({ min: 1, max: 200 }) }),
    data: suspenseView,
  },
} as const satisfies Contract
