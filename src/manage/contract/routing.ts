import { z } from 'zod'
import { IP_FAMILIES } from '../../domain/channel-network.ts'
import { OPERATIONS } from '../../domain/operation.ts'
import { id, modelName, optional } from './fields.ts'
import type { Contract } from './route.ts'

const network = z
  .object({
    proxy: z.string().nullable().describe('Without its credentials; null: a direct connection'),
    proxy_source: z.enum(['channel', 'gateway']).nullable(),
    names_resolved_by: z.enum(['gateway', 'proxy']),
    dns_servers: z.array(z.string()).readonly().describe('Empty: the resolver of the system'),
    ip_family: z.enum(['system', ...IP_FAMILIES]),
    ca: z
      .array(z.enum(['gateway', 'channel']))
      .readonly()
      .describe('Which settings add trusted certificates'),
    client_cert: z.string().nullable().describe('Subject of the client certificate'),
    fault: z.string().nullable().describe('Why the channel cannot connect as its setting says'),
  })
  .nullable()
  .describe('How the gateway connects to the provider')

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
  network,
})

export const routingContract = {
  explainRoute: {
    method: 'POST',
    path: '/api/route/explain',
    access: 'admin',
    summary:
      'The plan for a request, without sending it: which channels in which order, and why not the others',
    body: z.object({
      model: modelName,
      operation: optional(z.enum(OPERATIONS)),
      token_id: optional(id).describe('The token of the request, for canaries'),
      canary_id: optional(id).describe('Explains a request that tries the change of this canary'),
    }),
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
          network,
        }),
      ),
      passed_over: z.array(passedOver),
      canaries: z
        .array(
          z.object({
            id: z.int(),
            side: z
              .enum(['canary', 'baseline'])
              .nullable()
              .describe('The side of the explained request; null: the canary does not concern it'),
            reason: z.string(),
          }),
        )
        .describe('The running canaries on the way of the request'),
    }),
  },
} as const satisfies Contract
