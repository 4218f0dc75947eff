import { readFlag, readText, readWhole } from '../../look/filters.tsx'
import { ROW } from './log-row.ts'
import { beginOf, rangeOf } from './range.ts'

export const STATUSES = ['any', 'ok', 'failed', 'rejected'] as const
export type RequestStatus = (typeof STATUSES)[number]
export const SOURCES = ['provider', 'counted', 'input_only', 'zero'] as const

/** The filters of the usage page, as URL parameters. */
export type UsageFilters = {
  p?: number | undefined
  cursor?: string | undefined
  q?: string | undefined
  range?: string | undefined
  from?: number | undefined
  to?: number | undefined
  type?: number | undefined
  status?: RequestStatus | undefined
  model?: string | undefined
  /** By name, for links from other pages. */
  token?: string | undefined
  user?: string | undefined
  token_id?: number | undefined
  user_id?: number | undefined
  channel?: number | undefined
  stream?: string | undefined
  source?: string | undefined
  ip?: string | undefined
  /** `name=value` */
  tag?: string | undefined
  min_cost?: string | undefined
  min_ms?: number | undefined
  min_first_ms?: number | undefined
  min_attempts?: number | undefined
  upstream_model?: string | undefined
  cached?: string | undefined
  /** Comma-separated lists. */
  error_code?: string | undefined
  models?: string | undefined
  not_models?: string | undefined
  channels?: string | undefined
  not_channels?: string | undefined
  token_ids?: string | undefined
  not_token_ids?: string | undefined
  user_ids?: string | undefined
  not_user_ids?: string | undefined
  live?: boolean | undefined
}

const LISTS = [
  'error_code',
  'models',
  'not_models',
  'channels',
  'not_channels',
  'token_ids',
  'not_token_ids',
  'user_ids',
  'not_user_ids',
] as const satisfies readonly (keyof UsageFilters)[]

const oneOf = <Name extends string>(names: readonly Name[], value: unknown) =>
  names.find(name => name === value)
const AMOUNT = /^\d{1,6}(\.\d{1,9})?$/

export function readUsageFilters(raw: Record<string, unknown>): UsageFilters {
  const cost = readText(raw.min_cost)
  const tag = readText(raw.tag)
  return {
    cursor: /^\d+-\d+$/.test(String(raw.cursor)) ? String(raw.cursor) : undefined,
    q: readText(raw.q),
    range: readText(raw.range),
    from: readWhole(raw.from),
    to: readWhole(raw.to),
    type: readWhole(raw.type),
    status: oneOf(STATUSES, raw.status),
    model: readText(raw.model),
    token: readText(raw.token),
    user: readText(raw.user),
    token_id: readWhole(raw.token_id),
    user_id: readWhole(raw.user_id),
    channel: readWhole(raw.channel),
    stream: oneOf(['true', 'false'], String(raw.stream)),
    source: oneOf(SOURCES, raw.source),
    ip: readText(raw.ip),
    tag: tag !== undefined && /^[^=]+=/.test(tag) ? tag : undefined,
    min_cost: cost !== undefined && AMOUNT.test(cost) ? cost : undefined,
    min_ms: readWhole(raw.min_ms),
    min_first_ms: readWhole(raw.min_first_ms),
    min_attempts: readWhole(raw.min_attempts),
    upstream_model: readText(raw.upstream_model),
    cached: oneOf(['true', 'false'], String(raw.cached)),
    ...Object.fromEntries(LISTS.map(name => [name, readText(raw[name])])),
    live: readFlag(raw.live),
  }
}

/** Filters with a chip of their own; the time range has none. */
export const NARROWING = [
  'model',
  'channel',
  'token',
  'token_id',
  'user',
  'user_id',
  'stream',
  'source',
  'ip',
  'tag',
  'min_cost',
  'min_ms',
  'min_first_ms',
  'min_attempts',
  'upstream_model',
  'cached',
  ...LISTS,
] as const satisfies readonly (keyof UsageFilters)[]
export type Narrowing = (typeof NARROWING)[number]

/** Clears all filters except the time range. */
export const NO_FILTERS = Object.fromEntries(
  [...NARROWING, 'q', 'type', 'status', 'cursor'].map(name => [name, undefined]),
) as Partial<UsageFilters>

export const isNarrowed = (filters: UsageFilters) =>
  Boolean(filters.q || filters.type || filters.status || NARROWING.some(name => filters[name] !== undefined))

const REQUEST_ID = /^req_\w+$/

/** The filters as an API query. A request id is searched in all time. */
export function logQueryOf(filters: UsageFilters, isAdmin: boolean) {
  const { q, type, status = 'any', user, user_id, channel } = filters
  if (q && REQUEST_ID.test(q)) return { request_id: q }
  const isRequests = type === undefined || type === ROW.request || type === ROW.error
  return {
    start_timestamp: filters.from ?? beginOf(rangeOf(filters.range)),
    end_timestamp: filters.to,
    type,
    ...(isRequests ? { status } : {}),
    model_name: filters.model ?? (q ? `%${q}%` : undefined),
    token_name: filters.token,
    token_id: filters.token_id,
    stream: filters.stream,
    source: filters.source,
    ip: filters.ip,
    tag: filters.tag,
    min_cost: filters.min_cost,
    min_ms: filters.min_ms,
    min_first_ms: filters.min_first_ms,
    min_attempts: filters.min_attempts,
    upstream_model: filters.upstream_model,
    cached: filters.cached,
    ...Object.fromEntries(LISTS.map(name => [name, filters[name]])),
    ...(isAdmin ? { username: user, user_id, channel } : {}),
  }
}
export type LogQuery = ReturnType<typeof logQueryOf>

const IN_SUMS = ['model', 'channel', 'token_id', 'user_id'] as const satisfies readonly Narrowing[]

/** The filters of the chart; undefined when the stored sums do not have a filtered field. */
export function seriesFilters(filters: UsageFilters) {
  if (filters.q || filters.type) return undefined
  if (NARROWING.some(name => filters[name] !== undefined && !(IN_SUMS as readonly string[]).includes(name)))
    return undefined
  const { model, channel, token_id, user_id } = filters
  return { model, channel_id: channel, token_id, user_id }
}
