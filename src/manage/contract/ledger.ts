import { z } from 'zod'
import { idParams, paged, pageOf, queryFlag, queryNumber, text } from './fields.ts'
import type { Contract } from './route.ts'

const suspenseTold = z
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

export const entryTold = z
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
      faults: z.array(z.string()).describe('Those of the lines that say what does not hold'),
    }),
  },
  listEntries: {
    method: 'GET',
    path: '/api/ledger/entries',
    access: 'admin',
    summary:
      'Entries of the ledger about a user (without one, about yourself), newest first, or only those about a token',
    query: paged({ user_id: queryNumber, token_id: queryNumber }),
    data: pageOf(entryTold),
  },
  ledgerHealth: {
    method: 'GET',
    path: '/api/ledger/health',
    access: 'admin',
    summary: 'What the books hold open: leases, doubts, and how far each node’s journal has been applied',
    data: z.object({
      entries: z.int(),
      leased: z.string().describe('USD that nodes may spend without asking, exact'),
      suspense: z.object({
        open: z.int(),
        amount: z.string().describe('USD, exact'),
        oldest: z.int().nullable(),
      }),
      nodes: z.array(
        z.object({
          id: z.string(),
          started_time: z.int(),
          applied: z.int().describe('The last record of its journal that is in the store'),
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
    summary: 'What a provider may have billed for and nobody received, newest first',
    query: paged({ open: queryFlag }),
    data: pageOf(suspenseTold),
  },
  closeSuspense: {
    method: 'POST',
    path: '/api/ledger/suspense/:id',
    access: 'root',
    summary: 'Decide a doubt: write it off, or charge it to the user and token of the request',
    params: idParams,
    body: z.object({ action: z.enum(['write_off', 'charge']), reason: text({ min: 1, max: 200 }) }),
    data: suspenseTold,
  },
} as const satisfies Contract
