import { z } from 'zod'
import { CONDITIONS } from '../../domain/price.ts'
import { RATES, TOOLS } from '../../domain/rate.ts'
import { idParams, modelName, optional, paged, pageOf, queryFlag, queryText, text } from './fields.ts'
import type { Contract } from './route.ts'

/** The same schema under every one of these names. */
const each = <Name extends string, T>(names: readonly Name[], schema: T) =>
  Object.fromEntries(names.map(name => [name, schema])) as Record<Name, T>

const MAX_TIERS = 20
const MAX_VARIANTS = 500
const MAX_TIME = 100_000_000_000

/** The handler validates ranges and decimals; the schema only that a price is a number. */
const ratesInput = {
  ...each([...RATES, 'per_image'], z.number().nullish()),
  tools: z
    .object(each(TOOLS, z.number().nullish()))
    .nullish()
    .describe(
      'USD per call of a tool that the provider runs. A tool without a price is removed from requests; `per_search` is another name of `tools.web_search`',
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
    .describe('Different prices by size, quality or resolution, by service tier, or by kind of web search'),
  max_output_tokens: z.number().nullish(),
  unit_note: text({ max: 200 }).nullish(),
  effective_time: optional(z.int().min(0).max(MAX_TIME)).describe('When it takes effect; absent or 0: now'),
})

/** More versions in one transaction would block other writers for too long. */
const MAX_BATCH = 500

const dryRun = optional(z.boolean()).describe('True: returns the result without writing anything')

const ratesView = {
  ...each(RATES, z.number().optional()),
  tools: z
    .object(each(TOOLS, z.number().optional()))
    .optional()
    .describe('USD per call of a tool that the provider runs'),
}

/** USD per million tokens or per unit; an unset price is absent. */
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
    id: z.int().nullable().describe('null: a shipped price'),
    model: z.string(),
    version: z.int().describe('From 1; 0: a shipped price'),
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
    is_changed: z.boolean().describe('False if the price is the same already, or the change was refused'),
    code: z.string().describe('Why it was refused; empty on success'),
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
    summary: 'The price in force of every model: administrators’ prices first, then shipped prices, by name',
    query: paged({
      model: queryText,
      keyword: queryText,
      source: z
        .enum(['admin', 'shipped', ''])
        .transform(source => source || undefined)
        .optional()
        .describe('`admin`: only administrators’ prices; `shipped`: the whole shipped table'),
      in_use: queryFlag.describe('Only prices that apply to models of enabled channels'),
    }),
    data: pageOf(priceView),
  },
  createPrice: {
    method: 'POST',
    path: '/api/price/',
    access: 'admin',
    summary: 'Create a new version of a model’s price, effective now or later',
    body: priceInput,
    data: priceView,
  },
  changePrices: {
    method: 'PUT',
    path: '/api/price/batch',
    access: 'admin',
    summary:
      'Create new versions of several prices, effective now: fields that are sent change, null removes a field, absent fields stay. Each price is changed completely or not at all; the response says which',
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
      'Multiply the prices of several models by a factor, tiers and variants included, rounded to the nearest picodollar per token or unit: new versions, effective now',
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
    summary: 'Every price version by administrators, of one model or of all, newest first',
    query: paged({ model: queryText }),
    data: pageOf(priceVersionView),
  },
  deletePrice: {
    method: 'DELETE',
    path: '/api/price/:id',
    access: 'admin',
    summary: 'End every version of this version’s model; the shipped price applies again',
    params: idParams,
  },
} as const satisfies Contract
