import { z } from 'zod'
import { hasControl } from '../../domain/text.ts'
import { paged, pageOf, queryFlag, queryNumber, queryText } from './fields.ts'
import { entryView } from './ledger.ts'
import type { Contract } from './route.ts'

const MAX_PATTERN = 64
/** A name of 64 and a value of 512 characters. */
const MAX_TAG = 600
const MAX_WILDCARDS = 4

/** An exact text, or a pattern with `%`; short, because a pattern is compared with many rows. */
const textFilter = queryText.refine(
  value =>
    !value?.includes('%') || (value.length <= MAX_PATTERN && value.split(/%+/).length <= MAX_WILDCARDS + 1),
  `must have at most ${MAX_PATTERN} characters and ${MAX_WILDCARDS} % if it is a pattern`,
)

/** Existing clients send 0 or nothing for "all". */
const numberFilter = z.preprocess(value => (value === '' || value === '0' ? undefined : value), queryNumber)

const ownFilters = {
  type: numberFilter.describe('1 top-up, 2 request, 3 management, 4 system, 5 error, 6 refund, 7 sign-in'),
  start_timestamp: numberFilter,
  end_timestamp: numberFilter,
  token_name: textFilter,
  model_name: textFilter,
  group: queryText,
  request_id: queryText,
  tag: z
    .string()
    .max(MAX_TAG)
    .regex(/^([^=]+=.*)?$/s, 'must be a name and a value: project=atlas')
    .refine(value => value.isWellFormed() && !hasControl(value), 'must not contain control characters')
    .transform(text => {
      const at = text.indexOf('=')
      return text === '' ? undefined : { name: text.slice(0, at).trim(), value: text.slice(at + 1).trim() }
    })
    .optional()
    .describe('Requests with this tag: `project=atlas`'),
}
const filters = { ...ownFilters, username: textFilter, channel: numberFilter }

/** Dollars with up to nine digits after the point, as nanodollars. */
const nanosText = z
  .string()
  .regex(/^(\d{1,6}(\.\d{1,9})?)?$/, 'must be an amount in USD, like 0.05')
  .transform(value => (value === '' ? undefined : Math.round(Number(value) * 1e9)))
  .optional()
const atLeast = (what: string) => queryNumber.pipe(z.int().min(0).optional()).describe(what)

const MAX_LISTED = 50

const MAX_LIST_TEXT = 4_096
const longText = z
  .string()
  .max(MAX_LIST_TEXT)
  .refine(value => value.isWellFormed() && !hasControl(value), 'must not contain control characters')
  .transform(value => (value.trim() === '' ? undefined : value))
  .optional()

/** Several values separated by commas. */
const listOf = <T extends z.ZodType<unknown, string>>(item: T, what: string) =>
  longText
    .transform(value =>
      value
        ?.split(',')
        .map(each => each.trim())
        .filter(each => each !== ''),
    )
    .pipe(z.array(item).min(1).max(MAX_LISTED).optional())
    .describe(what)
const idText = z
  .string()
  .regex(/^\d{1,16}$/, 'must be a whole number')
  .transform(Number)

/** Additional filters of the list by cursor, its totals and its facets. */
const finerFilters = {
  ...filters,
  user_id: numberFilter,
  token_id: numberFilter,
  status: z
    .enum(['any', 'ok', 'failed', 'rejected', ''])
    .transform(value => (value === '' ? undefined : value))
    .optional()
    .describe(
      'Requests only: all, successful ones, those that a channel failed, those that the gateway rejected',
    ),
  stream: queryFlag,
  ip: queryText,
  source: z
    .enum(['provider', 'counted', 'input_only', 'zero', ''])
    .transform(value => (value === '' ? undefined : value))
    .optional()
    .describe('Source of the token counts'),
  min_cost: nanosText.describe('USD'),
  min_ms: atLeast('Minimum latency, in milliseconds'),
  min_first_ms: atLeast('Minimum time to first token, in milliseconds'),
  min_attempts: atLeast('Minimum number of attempts'),
  upstream_model: queryText.describe('The model name sent to the provider'),
  cached: queryFlag.describe('Whether a part of the input came from the provider’s cache'),
  error_code: listOf(z.string(), 'Error code of a failed request: any of these'),
  models: listOf(z.string(), 'Any of these models, separated by commas; at most 50, as in every list'),
  not_models: listOf(z.string(), 'None of these models'),
  channels: listOf(idText, 'Any of these channels'),
  not_channels: listOf(idText, 'None of these channels'),
  token_ids: listOf(idText, 'Any of these tokens'),
  not_token_ids: listOf(idText, 'None of these tokens'),
  user_ids: listOf(idText, 'Any of these users'),
  not_user_ids: listOf(idText, 'None of these users'),
}

/** Columns that can be exported: fields of a row, and members of `other`. */
export const EXPORTED = [
  'created_at',
  'request_id',
  'type',
  'username',
  'token_name',
  'model_name',
  'upstream_model',
  'channel',
  'channel_name',
  'attempts',
  'prompt_tokens',
  'completion_tokens',
  'cache_tokens',
  'reasoning_tokens',
  'cost',
  'vendor_cost',
  'use_time_ms',
  'first_ms',
  'is_stream',
  'source',
  'price',
  'error_code',
  'ip',
  'upstream_request_id',
  'requests',
  'content',
] as const
const columnNames = longText
  .transform(value => value?.split(',').map(each => each.trim()))
  .pipe(z.array(z.enum(EXPORTED)).optional())
  .describe(`Columns in order, separated by commas: ${EXPORTED.join(', ')}`)

const percentiles = z.object({ p50: z.int(), p95: z.int() }).nullable()

export const logView = z
  .object({
    id: z.int(),
    user_id: z.int(),
    created_at: z.int(),
    type: z.int(),
    content: z.string(),
    username: z.string(),
    token_id: z.int(),
    token_name: z.string(),
    model_name: z.string(),
    quota: z.int().describe('Units, rounded up'),
    cost: z.string().describe('USD, exact'),
    vendor_cost: z.string().nullable().describe('Provider-reported cost in USD; null if not reported'),
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
    use_time: z.int().describe('Seconds'),
    use_time_ms: z.int(),
    is_stream: z.boolean(),
    channel: z.int(),
    channel_name: z.string().describe('For administrators'),
    group: z.string(),
    ip: z.string(),
    request_id: z.string(),
    upstream_request_id: z.string(),
    requests: z.int().describe('1; more if the row stands for several rejected requests'),
    other: z.string().describe('An object as JSON text'),
  })
  .meta({ id: 'LogRow' })

const costView = z
  .object({
    lines: z.array(
      z.object({
        kind: z.string().describe('`input`, `cachedInput`, `output`, `calls` …'),
        quantity: z.int(),
        rate: z.string().describe('The field of the price that applied'),
        price: z.number().describe('USD per million tokens, or per unit'),
        amount: z.string().describe('USD, exact'),
      }),
    ),
    rounding: z.string().describe('USD; the charge is the sum of the lines and this'),
    overrun: z.string().describe('The part of the charge that could not be collected, in USD'),
  })
  .meta({ id: 'CostLines' })

const statView = z.object({
  quota: z.int().describe('Units of all matching requests'),
  rpm: z.int().describe('Requests of the last minute'),
  tpm: z.int().describe('Tokens of the last minute'),
})

/** Opaque to clients: the time and the id of a row. */
const cursorText = z
  .string()
  .regex(/^(\d{1,12}-\d{1,16})?$/, 'must be a cursor returned by this API')
  .transform(value => {
    const [time, id] = value.split('-')
    return value === '' ? undefined : { time: Number(time), id: Number(id) }
  })
  .optional()

export const logContract = {
  listLogs: {
    method: 'GET',
    path: '/api/log/',
    access: 'admin',
    summary:
      'The log of all users, newest first; `total` stops at 100,000. Several filters together, or a pattern with `%`, search the newest 20,000 rows of the most selective filter',
    query: paged(filters),
    data: pageOf(logView),
  },
  walkLogs: {
    method: 'GET',
    path: '/api/log/walk',
    access: 'user',
    summary:
      'The log by cursor, newest first; users see their own. `next` is the cursor of the next page, null at the end. Several filters together search 20,000 rows at a time, so a page may have few rows and still have a `next`',
    query: z.object({
      ...finerFilters,
      cursor: cursorText,
      limit: queryNumber.pipe(z.int().min(1).max(500).optional()),
    }),
    data: z.object({ rows: z.array(logView), next: z.string().nullable() }),
  },
  logTotals: {
    method: 'GET',
    path: '/api/log/totals',
    access: 'user',
    summary:
      'Number and sums of matching requests; users see their own. Exact for any number if filtered only by time, user, token, channel and model; otherwise up to 10,000',
    query: z.object(finerFilters),
    data: z.object({
      count: z.int(),
      is_more: z.boolean().describe('True if there are more than `count`; the sums are then null'),
      failures: z.int().nullable(),
      prompt_tokens: z.int().nullable(),
      completion_tokens: z.int().nullable(),
      cost: z.string().nullable().describe('USD, exact'),
    }),
  },
  logTimes: {
    method: 'GET',
    path: '/api/log/times',
    access: 'user',
    summary:
      'Latency and time to first token of matching successful requests: exact percentiles of the newest 10,000; users see their own',
    query: z.object(finerFilters),
    data: z.object({
      count: z.int().describe('Number of requests in the figures'),
      is_all: z.boolean().describe('False if there are more'),
      first_ms: percentiles.describe('Null if no request has it'),
      total_ms: percentiles,
    }),
  },
  logFacets: {
    method: 'GET',
    path: '/api/log/facets',
    access: 'user',
    summary:
      'Filter values of matching requests with their counts, most frequent first; users see their own models and tokens',
    query: z.object({
      ...finerFilters,
      by: z.enum(['model', 'channel', 'token', 'user', 'status', 'error']).default('model'),
      limit: queryNumber.pipe(z.int().min(1).max(200).optional()),
    }),
    data: z.object({
      values: z.array(z.object({ key: z.string(), name: z.string(), count: z.int() })),
      is_exact: z.boolean().describe('False if only the newest 10,000 matches were counted'),
    }),
  },
  exportLogs: {
    method: 'GET',
    path: '/api/log/export',
    access: 'user',
    summary:
      'The log as CSV or JSON lines, streamed, newest first; users get their own. At most 1,000,000 rows',
    query: z.object({
      ...finerFilters,
      format: z.enum(['csv', 'jsonl']).default('csv'),
      columns: columnNames,
    }),
    reply: z.any().describe('A file'),
  },
  getLog: {
    method: 'GET',
    path: '/api/log/request/:request_id',
    access: 'user',
    summary:
      'One request: its rows, its cost lines, and for administrators its ledger entries and unresolved charges',
    params: z.object({ request_id: z.string().regex(/^req_[0-9A-Z]{26}$/, 'must be a request id, req_…') }),
    data: z.object({
      rows: z.array(logView),
      costs: z
        .array(costView.nullable())
        .describe('Cost lines of each row; null if the price at that time is no longer known'),
      entries: z.array(entryView),
      doubts: z.array(
        z.object({ channel_id: z.int(), cost: z.string(), reason: z.string(), is_open: z.boolean() }),
      ),
      has_body: z.boolean().describe('Whether its bodies are kept'),
    }),
  },
  listOwnLogs: {
    method: 'GET',
    path: '/api/log/self',
    access: 'user',
    summary: 'Your own log, newest first',
    query: paged(ownFilters),
    data: pageOf(logView),
  },
  sumLogs: {
    method: 'GET',
    path: '/api/log/stat',
    access: 'admin',
    summary: 'Cost of all users’ requests, and the rates of the last minute',
    query: z.object(filters),
    data: statView,
  },
  sumOwnLogs: {
    method: 'GET',
    path: '/api/log/self/stat',
    access: 'user',
    summary: 'Cost of your requests, and the rates of the last minute',
    query: z.object(ownFilters),
    data: statView,
  },
  listTokenLogs: {
    method: 'GET',
    path: '/api/log/token',
    access: 'key',
    summary: 'The newest 1,000 rows of the calling token; works for expired and exhausted tokens too',
    query: z.object({ key: queryText }),
    data: z.array(logView),
  },
} as const satisfies Contract
