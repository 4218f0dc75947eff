import { z } from 'zod'
import { idParams, modelName, optional, paged, pageOf, queryFlag, text } from './fields.ts'
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

const passedOver = z.object({ channel_id: z.int(), reason: z.string(), again_in_ms: z.number().nullable() })

export const ledgerContract = {
  verifyLedger: {
    method: 'GET',
    path: '/api/ledger/verify',
    access: 'admin',
    summary: 'Recompute every hash chain and every balance',
    data: z.object({ ok: z.boolean(), lines: z.array(z.string()) }),
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
  explainRoute: {
    method: 'POST',
    path: '/api/route/explain',
    access: 'admin',
    summary:
      'The plan for a request, without sending it: which channels in which order, and why not the others',
    body: z.object({ model: modelName, operation: optional(z.enum(['chat', 'completions', 'embeddings'])) }),
    data: z.object({
      model: z.string(),
      served_as: z.string().nullable(),
      price: z.object({ model: z.string(), version: z.string() }).nullable(),
      steps: z.array(
        z.object({
          channel_id: z.int(),
          channel_name: z.string(),
          priority: z.int(),
          key_index: z.int(),
          sent_model: z.string(),
          is_trial: z.boolean(),
        }),
      ),
      passed_over: z.array(passedOver),
    }),
  },
} as const satisfies Contract
