import { z } from 'zod'
import { priceFieldsView } from './prices.ts'
import type { Contract } from './route.ts'

/** A model with its price: in dollars, and as the ratios that existing clients read. */
const pricingView = z
  .object({
    model_name: z.string(),
    owned_by: z.string(),
    owner_by: z.string().describe('The same, under the name that existing clients read'),
    vendor_id: z.int().describe('From `vendors` in the same response'),
    quota_type: z.int().describe('0 per token, 1 for everything else'),
    unpriced: z.boolean().describe('True: it has no price, and its ratios are meaningless'),
    input_price_per_million: z.number().nullable().describe('USD; null for a model without a price'),
    output_price_per_million: z.number().nullable(),
    ...priceFieldsView,
    model_ratio: z.number(),
    model_price: z.number(),
    completion_ratio: z.number(),
    cache_ratio: z.number(),
    create_cache_ratio: z.number(),
    image_ratio: z.number(),
    audio_ratio: z.number(),
    audio_completion_ratio: z.number(),
    enable_groups: z.array(z.string()),
    supported_endpoint_types: z.array(z.string()),
  })
  .meta({ id: 'Pricing' })

export const pricingContract = {
  pricing: {
    method: 'GET',
    path: '/api/pricing',
    access: 'any',
    summary:
      'Prices of the models that you may use; accepts an sk- token, a system access token or a session',
    reply: z.object({
      success: z.literal(true),
      message: z.string(),
      data: z.array(pricingView),
      vendors: z.array(
        z.object({ id: z.int(), name: z.string(), description: z.string(), icon: z.string() }),
      ),
      group_ratio: z.record(z.string(), z.number()),
      usable_group: z.record(z.string(), z.string()),
      supported_endpoint: z.record(z.string(), z.object({ path: z.string(), method: z.string() })),
      auto_groups: z.array(z.string()),
      pricing_version: z.string().describe('Changes whenever `data` changes'),
    }),
    relayErrors: true,
  },
  listUsableModels: {
    method: 'GET',
    path: '/api/user/models',
    access: 'user',
    summary: 'The names of the models you may use',
    data: z.array(z.string()),
  },
} as const satisfies Contract
