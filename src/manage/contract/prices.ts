import { z } from 'zod'
import { CONDITIONS } from '../../domain/price.ts'
import { RATES, TOOLS } from '../../domain/rate.ts'
import { idParams, modelName, optional, paged, pageOf, queryText, text } from './fields.ts'
import type { Contract } from './route.ts'

/** The same schema under every one of these names. */
const each = <Name extends string, T>(names: readonly Name[], schema: T) =>
  Object.fromEntries(names.map(name => [name, schema])) as Record<Name, T>

const MAX_TIERS = 20
const MAX_VARIANTS = 500
const MAX_TIME = 100_000_000_000

/** Ranges and decimals are judged where prices are known; here only that a price is a number. */
const ratesInput = {
  ...each([...RATES, 'per_image'], z.number().nullish()),
  tools: z
    .object(each(TOOLS, z.number().nullish()))
    .nullish()
    .describe(
      'USD a call of a tool that the provider runs. A tool without a price is removed from requests; `per_search` is another name of `tools.web_search`',
    ),
}

const priceInput = z.object({
  model: modelName,
  ...ratesInput,
  tiers: z
    .array(z.object({ input_over: z.number(), ...ratesInput }))
    .max(MAX_TIERS)
    .nullish(),
  variants: z
    .array(z.object({ when: z.object(each(CONDITIONS, text({ max: 64 }).nullish())), ...ratesInput }))
    .max(MAX_VARIANTS)
    .nullish()
    .describe(
      'What differs for a size, quality or resolution, for a service that a chat asks for, or for a kind of web search',
    ),
  max_output_tokens: z.number().nullish(),
  unit_note: text({ max: 200 }).nullish(),
  effective_time: optional(z.int().min(0).max(MAX_TIME)).describe(
    'From when on it counts; missing or 0: from now on',
  ),
})

/** More versions than this in one transaction would keep other writers waiting. */
const MAX_BATCH = 500

const dryRun = optional(z.boolean()).describe('True: nothing is written, it is only told what would be')

const ratesView = {
  ...each(RATES, z.number().optional()),
  tools: z
    .object(each(TOOLS, z.number().optional()))
    .optional()
    .describe('USD a call of a tool that the provider runs'),
}

/** USD per million tokens or per unit; a price that is not stated is absent. */
export const priceFieldsView = {
  ...ratesView,
  tiers: z
    .array(z.object({ input_over: z.int(), ...ratesView }))
    .readonly()
    .optional(),
  variants: z
    .array(z.object({ when: z.object(each(CONDITIONS, z.string().optional())), ...ratesView }))
    .readonly()
    .optional(),
  max_output_tokens: z.int().optional(),
  unit_note: z.string().optional(),
}

const priceView = z
  .object({
    id: z.int().nullable().describe('null: the price that comes with the product'),
    model: z.string(),
    version: z.int().describe('From 1; 0: the price that comes with the product'),
    source: z.enum(['admin', 'shipped']),
    quota_type: z.int().describe('0 per token, 1 for everything else'),
    ...priceFieldsView,
    effective_time: z.int(),
    created_time: z.int(),
    author: z.object({ id: z.int(), username: z.string() }).nullable(),
  })
  .meta({ id: 'Price' })

const batchView = z.array(
  z.object({
    model: z.string(),
    is_changed: z.boolean().describe('False where it costs that already, or was refused'),
    code: z.string().describe('Empty, or why it was refused'),
    message: z.string(),
    before: z.object(priceFieldsView).nullable().describe('null: it had no price'),
    after: z.object(priceFieldsView).nullable(),
  }),
)

const priceVersionView = priceView
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
    data: pageOf(priceView),
  },
  createPrice: {
    method: 'POST',
    path: '/api/price/',
    access: 'admin',
    summary: 'Make a new version of a model’s price, from now on or from a later moment on',
    body: priceInput,
    data: priceView,
  },
  changePrices: {
    method: 'PUT',
    path: '/api/price/batch',
    access: 'admin',
    summary:
      'Make new versions of several prices, from now on: of each the fields given are changed, null takes one away, and what is missing stays as it is in force. Each is changed whole or not at all, and the answer says which',
    body: z.object({
      prices: z
        .array(priceInput.omit({ effective_time: true }))
        .min(1)
        .max(MAX_BATCH),
      dry_run: dryRun,
    }),
    data: batchView,
  },
  multiplyPrices: {
    method: 'POST',
    path: '/api/price/multiply',
    access: 'admin',
    summary:
      'Multiply all that several models cost by a factor, tiers and variants included, to the nearest picodollar a token or unit: new versions, from now on',
    body: z.object({
      models: z.array(modelName).min(1).max(MAX_BATCH),
      factor: z.number().gt(0).max(1_000).describe('With at most six decimals'),
      dry_run: dryRun,
    }),
    data: batchView,
  },
  listPriceHistory: {
    method: 'GET',
    path: '/api/price/history',
    access: 'admin',
    summary: 'Every version administrators ever made, of one model or of all, newest first',
    query: paged({ model: queryText }),
    data: pageOf(priceVersionView),
  },
  deletePrice: {
    method: 'DELETE',
    path: '/api/price/:id',
    access: 'admin',
    summary: 'End every version of this version’s model; the price that comes with the product counts again',
    params: idParams,
  },
} as const satisfies Contract
