import { z } from 'zod'
import { OPERATIONS } from '../../domain/operation.ts'
import { modelName, optional } from './fields.ts'
import type { Contract } from './route.ts'

const passedOver = z.object({
  channel_id: z.int(),
  channel_name: z.string(),
  reason: z.string(),
  again_in_ms: z.number().nullable(),
  detail: z
    .string()
    .describe(
      'The failure that started a cooldown: status, code and message of the provider; or why the gateway disabled the channel',
    ),
})

export const routingContract = {
  explainRoute: {
    method: 'POST',
    path: '/api/route/explain',
    access: 'admin',
    summary:
      'The plan for a request, without sending it: which channels in which order, and why not the others',
    body: z.object({ model: modelName, operation: optional(z.enum(OPERATIONS)) }),
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
