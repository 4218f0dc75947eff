import { z } from 'zod'
import { CONDITIONS } from '../../domain/price.ts'
import { RATES } from '../../domain/rate.ts'
import { idParams, modelName, optional, paged, pageOf, queryText, text } from './fields.ts'
import type { Contract } from './route.ts'

/** The same schema under every one of these names. */
const each = <Name extends string, T>(names: readonly Name[], schema: T) =>
  Object.fromEntries(names.map(name => [name, schema])) as Record<Name, T>

const MAX_TIERS = 20
const MAX_VARIANTS = 500
const MAX_TIME = 100_000_000_000

/** Ranges and decimals are judged where prices are known; here only that a price is a number. */
const ratesGiven = each([...RATES, 'per_image'], z.number().nullish())

const priceGiven = z.object({
  model: modelName,
  ...ratesGiven,
  tiers: z
    .array(z.object({ input_over: z.number(), ...ratesGiven }))
    .max(MAX_TIERS)
    .nullish(),
  variants: z
    .array(z.object({ when: z.object(each(CONDITIONS, text({ max: 64 }).nullish())), ...ratesGiven }))
    .max(MAX_VARIANTS)
    .nullish(),
  max_output_tokens: z.number().nullish(),
  unit_note: text({ max: 200 }).nullish(),
  effective_time: optional(z.int().min(0).max(MAX_TIME)).describe(
    'From when on it counts; missing or 0: from now on',
  ),
})

const ratesTold = each(RATES, z.number().optional())

/** USD per million tokens or per unit; a price that is not stated is absent. */
export const priceFieldsTold = {
  ...ratesTold,
  tiers: z
    .array(z.object({ input_over: z.int(), ...ratesTold }))
    .readonly()
    .optional(),
  variants: z
    .array(z.object({ when: z.object(each(CONDITIONS, z.string().optional())), ...ratesTold }))
    .readonly()
    .optional(),
  max_output_tokens: z.int().optional(),
  unit_note: z.string().optional(),
}

const priceTold = z
  .object({
    id: z.int().nullable().describe('null: the price that comes with the product'),
    model: z.string(),
    version: z.int().describe('From 1; 0: the price that comes with the product'),
    source: z.enum(['admin', 'shipped']),
    quota_type: z.int().describe('0 per token, 1 for everything else'),
    ...priceFieldsTold,
    effective_time: z.int(),
    created_time: z.int(),
    author: z.object({ id: z.int(), username: z.string() }).nullable(),
  })
  .meta({ id: 'Price' })

const priceVersionTold = priceTold
  .extend({ ended_time: z.int().nullable().describe('When it was ended by DELETE') })
  .meta({ id: 'PriceVersion' })

export const priceContract = {
  listPrices: {
    method: 'GET',
    path: '/api/price/',
    access: 'admin',
    summary:
      'The price in force of every model: administrators’ first, then those that come with the product, by name',
    query: paged({
      model: queryText,
      keyword: queryText,
      source: z
        .enum(['admin', 'shipped', ''])
        .transform(source => source || undefined)
        .optional()
        .describe('`admin`: only administrators’ prices; `shipped`: the whole table of the product'),
    }),
    data: pageOf(priceTold),
  },
  createPrice: {
    method: 'POST',
    path: '/api/price/',
    access: 'admin',
    summary: 'Make a new version of a model’s price, from now on or from a later moment on',
    body: priceGiven,
    data: priceTold,
  },
  listPriceHistory: {
    method: 'GET',
    path: '/api/price/history',
    access: 'admin',
    summary: 'Every version administrators ever made, of one model or of all, newest first',
    query: paged({ model: queryText }),
    data: pageOf(priceVersionTold),
  },
  deletePrice: {
    method: 'DELETE',
    path: '/api/price/:id',
    access: 'admin',
    summary: 'End every version of this version’s model; the price that comes with the product counts again',
    params: idParams,
  },
} as const satisfies Contract
