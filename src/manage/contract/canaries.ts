import { z } from 'zod'
import { CANARY_KINDS, CANARY_SPLITS, CANARY_STATES, MAX_CANARY_TOKENS } from '../../domain/canary.ts'
import { id, idParams, modelName, optional, paged, pageOf, queryNumber, queryText, text } from './fields.ts'
import type { Contract } from './route.ts'

const MAX_TIME = 100_000_000_000
const time = z.int().min(0).max(MAX_TIME)

const share = z
  .number()
  .min(0.1)
  .max(100)
  .refine(value => Math.abs(value * 10 - Math.round(value * 10)) < 1e-9, 'must have at most one decimal')
  .describe('Percent of the requests or tokens that try the change, in steps of 0.1')
const splitBy = z
  .enum(CANARY_SPLITS)
  .describe('`request`: each request by itself. `token`: all requests of a token together')
const tokenIds = z
  .array(id)
  .min(1)
  .max(MAX_CANARY_TOKENS)
  .nullish()
  .describe('Only requests of these tokens take part; null: those of all tokens')
const note = text({ max: 200 })
const until = time.nullish().describe('Of a shadow price: it is computed until this time; null: no end')

const fieldView = z.object({
  path: z.string(),
  before: z.unknown().optional().describe('At the start of the canary'),
  after: z.unknown().optional(),
})

const canaryFields = {
  id: z.int(),
  kind: z.enum(CANARY_KINDS),
  channel_id: z.int().nullable(),
  alias_id: z.int().nullable(),
  model: z.string().nullable().describe('Of a shadow price'),
  name: z.string().describe('The name of the channel or alias at the start, or the model'),
  state: z.enum(CANARY_STATES),
  share: z.number(),
  split_by: z.enum(CANARY_SPLITS),
  token_ids: z.array(z.int()).nullable(),
  round: z.int().describe('Counts the changes of share, split and tokens; a round is compared by itself'),
  round_time: z.int(),
  from: z.int(),
  until: z.int().nullable(),
  note: z.string(),
  fields: z.array(fieldView).describe('The change; secrets are masked'),
  drift: z
    .array(z.string())
    .describe(
      'Fields of the change that were changed otherwise since the start; `secrets`: keys or secrets were changed, and the canary is not applied, because it would send them elsewhere',
    ),
  author: z.object({ id: z.int(), username: z.string() }),
  created_time: z.int(),
  ended_time: z.int().nullable(),
  end_note: z.string(),
}
const canaryView = z.object(canaryFields).meta({ id: 'Canary' })

const percentiles = z.object({ p50: z.number(), p95: z.number() }).nullable()
const sideView = z.object({
  requests: z.int(),
  errors: z.int(),
  error_rate: z.number().nullable().describe('From 0 to 1; null without requests'),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  cost: z.string().describe('Charged, in USD'),
  cost_per_request: z.string().nullable(),
  timed_requests: z.int().describe('The newest successful requests, at most 10,000 of the last 30 days'),
  latency_ms: percentiles,
  first_token_ms: percentiles,
})

const comparisonView = z
  .object({
    round: z.int(),
    canary: sideView,
    baseline: sideView.describe('Requests that could have tried the change and did not'),
  })
  .meta({ id: 'CanaryComparison' })

const shadowSums = {
  requests: z.int(),
  cost: z.string().describe('Charged, in USD'),
  shadow_cost: z.string().describe('What the shadow price would have charged, in USD'),
  difference: z.string().describe('`shadow_cost` minus `cost`'),
}

const wholeCanary = z
  .object({
    ...canaryFields,
    comparison: comparisonView.nullable().describe('Null for a shadow price'),
    shadow: z.object(shadowSums).nullable().describe('Null for other kinds'),
  })
  .meta({ id: 'WholeCanary' })

const reason = optional(
  z.object({ reason: optional(note).describe('Stored with the canary, and in the revision') }),
)

/** Changes that are tried on a part of the requests (docs/reference/canary.md: Kinds). */
export const canaryContract = {
  listCanaries: {
    method: 'GET',
    path: '/api/canary/',
    access: 'admin',
    summary: 'List canaries and shadow prices, newest first',
    query: paged({
      kind: z
        .enum([...CANARY_KINDS, ''])
        .transform(kind => kind || undefined)
        .optional(),
      state: z
        .enum([...CANARY_STATES, 'open', ''])
        .transform(state => state || undefined)
        .optional()
        .describe('`open`: running or paused'),
      channel_id: queryNumber,
      alias_id: queryNumber,
      model: queryText,
    }),
    data: pageOf(canaryView),
  },
  startCanary: {
    method: 'POST',
    path: '/api/canary/',
    access: 'admin',
    summary:
      'Try a change of a channel or alias on a part of the requests, or compute a price beside the real one',
    body: z.object({
      kind: z.enum(CANARY_KINDS),
      channel_id: optional(id),
      alias_id: optional(id),
      model: optional(modelName).describe('For a shadow price'),
      changes: z
        .record(z.string(), z.unknown())
        .describe('Fields of the channel, alias or price, with their new values'),
      share: optional(share),
      split_by: optional(splitBy),
      token_ids: tokenIds,
      from: optional(time).describe('Of a shadow price: it is computed from this time on; absent or 0: now'),
      until,
      note: optional(note),
    }),
    data: canaryView,
  },
  getCanary: {
    method: 'GET',
    path: '/api/canary/:id',
    access: 'admin',
    summary: 'One canary with its comparison, or with the totals of its shadow price',
    params: idParams,
    query: z.object({ round: queryNumber }),
    data: wholeCanary,
  },
  updateCanary: {
    method: 'PUT',
    path: '/api/canary/',
    access: 'admin',
    summary: 'Change who takes part, which begins a new round, or the end or note; only the fields sent',
    body: z.object({
      id,
      share: optional(share),
      split_by: optional(splitBy),
      token_ids: tokenIds,
      until,
      note: optional(note),
    }),
    data: canaryView,
  },
  pauseCanary: {
    method: 'POST',
    path: '/api/canary/:id/pause',
    access: 'admin',
    summary: 'Pause a canary: no request tries the change, and none is counted',
    params: idParams,
    data: canaryView,
  },
  resumeCanary: {
    method: 'POST',
    path: '/api/canary/:id/resume',
    access: 'admin',
    summary: 'Resume a paused canary, in the same round',
    params: idParams,
    data: canaryView,
  },
  promoteCanary: {
    method: 'POST',
    path: '/api/canary/:id/promote',
    access: 'admin',
    summary: 'Make the change for all requests, as an ordinary change with a revision, and end the canary',
    params: idParams,
    body: optional(
      z.object({
        reason: optional(note),
        force: optional(z.boolean()).describe('True: also if its fields were changed otherwise since'),
        effective_time: optional(time).describe('Of a shadow price: when it takes effect; absent or 0: now'),
      }),
    ),
    data: canaryView,
  },
  dropCanary: {
    method: 'POST',
    path: '/api/canary/:id/drop',
    access: 'admin',
    summary: 'End a canary without making the change; its comparison stays readable',
    params: idParams,
    body: reason,
    data: canaryView,
  },
  reportShadowPrice: {
    method: 'GET',
    path: '/api/canary/:id/report',
    access: 'admin',
    summary: 'What was charged and what the shadow price would have charged, by day, user or token',
    params: idParams,
    query: paged({
      group: z
        .enum(['day', 'user', 'token', ''])
        .transform(group => group || undefined)
        .optional()
        .describe('Default: day'),
    }),
    data: pageOf(
      z.object({
        key: z.int().describe('The start of the day in UTC, or the id of the user or token'),
        name: z.string(),
        ...shadowSums,
      }),
    ),
  },
} as const satisfies Contract
