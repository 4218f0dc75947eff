import { z } from 'zod'
import type { Contract } from './route.ts'

const usageView = z.object({
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

const subscriptionView = z
  .object({
    object: z.literal('billing_subscription'),
    has_payment_method: z.boolean(),
    soft_limit_usd: z.number(),
    hard_limit_usd: z.number().describe('Total quota of the token; 100000000 if unlimited'),
    system_hard_limit_usd: z.number(),
    access_until: z.int().describe('0: no expiry'),
  })
  .meta({ id: 'BillingSubscription' })

const totalView = z
  .object({
    object: z.literal('list'),
    total_usage: z.number().describe('US cents that the token has used'),
  })
  .meta({ id: 'BillingUsage' })

const subscription = {
  method: 'GET',
  access: 'key',
  summary: 'The limit of the calling token, in the common form',
  reply: subscriptionView,
  relayErrors: true,
} as const

const total = {
  method: 'GET',
  access: 'key',
  summary: 'Usage of the calling token in US cents; the remainder is the limit minus this',
  reply: totalView,
  relayErrors: true,
} as const

/** What a token may read about itself (docs/reference/management-api.md: Usage of a token). */
export const usageContract = {
  tokenUsage: {
    method: 'GET',
    path: '/api/usage/token/',
    access: 'key',
    summary: 'Quota, usage and remainder of the calling token; works for expired and exhausted tokens too',
    reply: z.object({ code: z.literal(true), message: z.string(), data: usageView }),
  },
  billingSubscription: { ...subscription, path: '/v1/dashboard/billing/subscription' },
  billingUsage: { ...total, path: '/v1/dashboard/billing/usage' },
  billingSubscriptionShort: { ...subscription, path: '/dashboard/billing/subscription' },
  billingUsageShort: { ...total, path: '/dashboard/billing/usage' },
} as const satisfies Contract
