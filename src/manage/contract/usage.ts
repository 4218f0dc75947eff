import { z } from 'zod'
import type { Contract } from './route.ts'

const usageTold = z.object({
  object: z.literal('token_usage'),
  name: z.string(),
  total_granted: z.int(),
  total_used: z.int(),
  total_available: z.int(),
  unlimited_quota: z.boolean(),
  model_limits: z.record(z.string(), z.literal(true)),
  model_limits_enabled: z.boolean(),
  expires_at: z.int().describe('0: never'),
})

const subscriptionTold = z
  .object({
    object: z.literal('billing_subscription'),
    has_payment_method: z.boolean(),
    soft_limit_usd: z.number(),
    hard_limit_usd: z.number().describe('What the token was given in all; 100000000 for one without a limit'),
    system_hard_limit_usd: z.number(),
    access_until: z.int().describe('0: for ever'),
  })
  .meta({ id: 'BillingSubscription' })

const totalTold = z
  .object({
    object: z.literal('list'),
    total_usage: z.number().describe('US cents that the token has used'),
  })
  .meta({ id: 'BillingUsage' })

const subscription = {
  method: 'GET',
  access: 'key',
  summary: 'The limit of the token that asks, in the common form',
  reply: subscriptionTold,
  relayErrors: true,
} as const

const total = {
  method: 'GET',
  access: 'key',
  summary: 'What the token that asks has used, in US cents; what is left is the limit less this',
  reply: totalTold,
  relayErrors: true,
} as const

/** What a token may read about itself (docs/reference/management-api.md: Usage of a token). */
export const usageContract = {
  tokenUsage: {
    method: 'GET',
    path: '/api/usage/token/',
    access: 'key',
    summary:
      'What the token that asks was given, has used and has left; expired and used-up ones may ask too',
    reply: z.object({ code: z.literal(true), message: z.string(), data: usageTold }),
  },
  billingSubscription: { ...subscription, path: '/v1/dashboard/billing/subscription' },
  billingUsage: { ...total, path: '/v1/dashboard/billing/usage' },
  billingSubscriptionShort: { ...subscription, path: '/dashboard/billing/subscription' },
  billingUsageShort: { ...total, path: '/dashboard/billing/usage' },
} as const satisfies Contract
