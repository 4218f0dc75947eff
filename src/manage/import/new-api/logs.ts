import { LOG_TYPE } from '../../../domain/log.ts'
import { nanosOf } from '../../../domain/money.ts'
import type { SourceLog } from '../inventory.ts'
import { boundedOf, flagOf, lineOf, objectOf, type SourceRow, textOf, timeOf, wholeOf } from '../values.ts'
import { nanosOfUnits, type UnitScale } from './quota.ts'

export const LOG_COLUMNS = [
  'created_at',
  'type',
  'user_id',
  'token_id',
  'token_name',
  'model_name',
  'quota',
  'prompt_tokens',
  'completion_tokens',
  'use_time',
  'elapsed_time',
  'is_stream',
  'channel_id',
  'ip',
  'request_id',
  'other',
] as const

const MAX_COUNT = 1_000_000_000
/** 1,000 USD: no request costs more. */
const MAX_COST_UNITS = 500_000_000n

/** What is members of `other`: how the request was charged. */
const IMPORTED_MEMBERS = [
  'model_ratio',
  'completion_ratio',
  'cache_ratio',
  'cache_tokens',
  'cache_creation_tokens',
  'group_ratio',
  'model_price',
  'upstream_model_name',
] as const

/** A usage row of a request; undefined for other rows, which tell of the other gateway. */
export function readLog(row: SourceRow, scale: UnitScale): SourceLog | undefined {
  if (wholeOf(row.type) !== BigInt(LOG_TYPE.consume)) return undefined
  const units = wholeOf(row.quota) ?? 0n
  const bounded = units < 0n ? 0n : units > MAX_COST_UNITS ? MAX_COST_UNITS : units
  const nanos = nanosOfUnits(bounded, scale)
  const other = objectOf(row.other) ?? {}
  const members = IMPORTED_MEMBERS.filter(
    name => typeof other[name] === 'number' || typeof other[name] === 'string',
  )
  return {
    sourceId: textOf(row.id),
    createdTime: timeOf(row.created_at),
    type: LOG_TYPE.consume,
    userId: textOf(row.user_id),
    tokenId: textOf(row.token_id),
    channelId: textOf(row.channel_id),
    tokenName: lineOf(row.token_name, 50),
    model: lineOf(row.model_name, 255),
    content: '',
    nanos: nanos > BigInt(nanosOf(Number(MAX_COST_UNITS))) ? nanosOf(Number(MAX_COST_UNITS)) : Number(nanos),
    promptTokens: boundedOf(row.prompt_tokens, 0, MAX_COUNT, 0),
    completionTokens: boundedOf(row.completion_tokens, 0, MAX_COUNT, 0),
    // Seconds in new-api, milliseconds in one-api.
    useTimeMs:
      row.elapsed_time === undefined
        ? boundedOf(row.use_time, 0, 1_000_000, 0) * 1000
        : boundedOf(row.elapsed_time, 0, MAX_COUNT, 0),
    isStream: flagOf(row.is_stream),
    address: lineOf(row.ip, 64),
    requestId: lineOf(row.request_id, 100),
    other: Object.fromEntries(
      members.map(name => [name, typeof other[name] === 'string' ? lineOf(other[name], 255) : other[name]]),
    ),
  }
}
