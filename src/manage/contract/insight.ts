import { z } from 'zod'
import { isTimeZone } from '../../domain/calendar.ts'
import { optional, queryNumber, queryText } from './fields.ts'
import type { Contract } from './route.ts'

/** A chart with more points than this is unreadable. */
const MAX_POINTS = 800

const moment = z
  .string()
  .regex(/^\d{1,12}$/, 'must be a Unix time in seconds')
  .transform(Number)

const narrowing = { user_id: queryNumber, token_id: queryNumber, channel_id: queryNumber, model: queryText }
const isInOrder = ({ from, to }: { from: number; to: number }) => from < to
const OUT_OF_ORDER = { path: ['to'], message: 'must be after from' }

const topQuery = z
  .object({
    from: moment,
    to: moment,
    by: z.enum(['model', 'token', 'channel', 'user']),
    limit: queryNumber.pipe(z.int().min(1).max(100).optional()),
    ...narrowing,
  })
  .refine(isInOrder, OUT_OF_ORDER)

const overTime = {
  from: moment,
  to: moment,
  step: z.enum(['900', '3600', '21600', '86400']).transform(Number).default(3_600),
  tz: z.string().max(64).refine(isTimeZone, 'is not a known time zone').default('UTC'),
  ...narrowing,
}
type OverTime = { from: number; to: number; step: number }
const isFew =
  (points: number) =>
  ({ from, to, step }: OverTime) =>
    (to - from) / step <= points
const tooMany = (points: number) => ({
  path: ['step'],
  message: `must leave at most ${points} points between from and to`,
})

const seriesQuery = z
  .object({
    ...overTime,
    group_by: z.enum(['model', 'token', 'channel', 'user']).optional(),
    top: queryNumber.pipe(z.int().min(1).max(20).optional()),
  })
  .refine(isInOrder, OUT_OF_ORDER)
  .refine(isFew(MAX_POINTS), tooMany(MAX_POINTS))

/** Fewer than of sums, because each is computed from the requests themselves. */
const MAX_TIME_POINTS = 200

const timesQuery = z
  .object(overTime)
  .refine(isInOrder, OUT_OF_ORDER)
  .refine(isFew(MAX_TIME_POINTS), tooMany(MAX_TIME_POINTS))

const tagsQuery = z
  .object({
    from: moment,
    to: moment,
    name: queryText,
    user_id: queryNumber,
    limit: queryNumber.pipe(z.int().min(1).max(500).optional()),
  })
  .refine(isInOrder, OUT_OF_ORDER)

const spans = z.object({ p50: z.array(z.number().nullable()), p95: z.array(z.number().nullable()) })

const figures = {
  requests: z.int(),
  failures: z.int(),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  cost: z.string().describe('USD, exact'),
}
const columns = {
  requests: z.array(z.int()),
  failures: z.array(z.int()),
  prompt_tokens: z.array(z.int()),
  completion_tokens: z.array(z.int()),
  cost: z.array(z.string()).describe('USD, exact'),
}

const condition = z.object({
  state: z
    .enum(['ready', 'cooling_down', 'trial', 'trying'])
    .describe(
      '`trial`: the cooldown has ended, and the next request decides. `trying`: that request is running',
    ),
  cooldown_until: z.int().nullable().describe('Unix seconds'),
  reason: z
    .string()
    .describe('The failure that started the cooldown: status, code and message of the provider'),
})

export const insightContract = {
  usageSeries: {
    method: 'GET',
    path: '/api/usage/series',
    access: 'user',
    summary:
      'Requests, tokens and cost over time: exact sums by quarter hour, hour, six hours or day of a time zone. Users see their own, administrators those of all users',
    query: seriesQuery,
    data: z.object({
      starts: z.array(z.int()).describe('Start of each point, Unix seconds'),
      totals: z.object(figures),
      previous: z.object(figures).describe('Of the previous period of the same length'),
      series: z
        .array(z.object({ key: z.string(), name: z.string(), ...columns }))
        .describe('One series without `group_by`; otherwise the `top` (6) by cost, and `other` for the rest'),
    }),
  },
  usageTop: {
    method: 'GET',
    path: '/api/usage/top',
    access: 'user',
    summary:
      'Usage by model, token, channel or user, by descending cost, and the sum of the rest: exact sums from the quarter hour that contains `from`. Users see their own, administrators those of all users',
    query: topQuery,
    data: z.object({
      totals: z.object(figures),
      rows: z
        .array(z.object({ key: z.string(), name: z.string(), ...figures }))
        .describe('The first `limit` (6)'),
      other: z.object(figures).nullable(),
    }),
  },
  usageTags: {
    method: 'GET',
    path: '/api/usage/tags',
    access: 'user',
    summary:
      'Usage by the values of a tag, or without `name` by the names of tags, by descending cost. Computed from the newest 1,000,000 requests with tags. Users see their own, administrators those of all users',
    query: tagsQuery,
    data: z.object({
      rows: z.array(z.object({ key: z.string(), ...figures })),
      is_exact: z.boolean().describe('False if there are more requests'),
    }),
  },
  usageTimes: {
    method: 'GET',
    path: '/api/usage/times',
    access: 'user',
    summary:
      'Latency and time to first token of successful requests over time, as percentiles in milliseconds; null without requests. Computed from the newest requests of each point, at most 20,000 in total. Users see their own, administrators those of all users',
    query: timesQuery,
    data: z.object({
      starts: z.array(z.int()).describe('Start of each point, Unix seconds'),
      first_ms: spans,
      total_ms: spans,
      most: z.int().describe('Maximum number of requests per point'),
      is_all: z.boolean().describe('False if a point may have more requests'),
    }),
  },
  channelHealth: {
    method: 'GET',
    path: '/api/channel/health',
    access: 'admin',
    summary:
      'Health of every channel: its cooldown, and its last 24 hours by the hour. A channel without a usable key cools down until its first key is ready',
    data: z.array(
      z.object({
        channel_id: z.int(),
        ...condition.shape,
        keys: z.array(z.object({ index: z.int(), ...condition.shape })).describe('Keys that are not ready'),
        ...figures,
        hours: z
          .array(z.object({ requests: z.int(), failures: z.int() }))
          .describe('24 hours, oldest first; empty without requests'),
      }),
    ),
  },
  modelOverview: {
    method: 'GET',
    path: '/api/model/',
    access: 'user',
    summary: 'Every available model and alias: channels, price and the last 24 hours',
    data: z.array(
      z.object({
        name: z.string(),
        is_alias: z.boolean(),
        owned_by: z.string(),
        endpoint_types: z.array(z.string()),
        channels_on: z.int(),
        channels_all: z.int().describe('For administrators; equal to `channels_on` for others'),
        is_priced: z.boolean(),
        requests: z.int(),
        failures: z.int(),
        cost: z.string().describe('USD, exact'),
      }),
    ),
  },
  attention: {
    method: 'GET',
    path: '/api/attention',
    access: 'user',
    summary: 'What needs attention: the most urgent first, at most 50; dismissed items last',
    data: z.array(
      z.object({
        id: z.string().describe('Names the item and its cause: it is another one when the cause changes'),
        kind: z.enum([
          'requests_failing',
          'channel_disabled',
          'key_rejected',
          'channel_cooling_down',
          'implausible_usage',
          'override_disabled',
          'model_single_channel',
          'model_unpriced',
          'token_low',
          'token_expiring',
          'suspense_open',
          'video_unrefunded',
          'public_without_tls',
          'untrusted_proxy',
        ]),
        level: z.enum(['error', 'warning', 'info']),
        target: z
          .string()
          .describe(
            '`channel:7`, `token:3`, `model:gpt-x`, `models` for several, `setting:HOST`, `code:ip_not_allowed` …',
          ),
        name: z.string().describe('Of the target; of several, their number'),
        count: z.int().describe('The number of targets'),
        names: z.array(z.string()).describe('The first 50 targets, if one item stands for several'),
        detail: z.string(),
        since: z.int().nullable(),
        until: z.int().nullable().describe('The end of a cooldown, Unix seconds'),
        is_dismissed: z.boolean(),
      }),
    ),
  },
  dismissAttention: {
    method: 'POST',
    path: '/api/attention/dismiss',
    access: 'user',
    summary: 'Dismiss an item for the caller until its cause changes, or show it again',
    body: z.object({
      item: z.string().regex(/^[0-9a-f]{32}$/, 'must be the id of an item of /api/attention'),
      is_dismissed: optional(z.boolean()),
    }),
  },
} as const satisfies Contract
