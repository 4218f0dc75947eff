import { NEVER, TOKEN_STATUS } from '../../../domain/token.ts'
import { isAddressOrRange } from '../../../http/address.ts'
import { MAX_NAMES } from '../../contract/fields.ts'
import type { SourceToken } from '../inventory.ts'
import type { ImportNotes } from '../notes.ts'
import {
  boundedOf,
  flagOf,
  lineOf,
  MAX_TIME,
  namesOf,
  quoted,
  type SourceRow,
  textOf,
  timeOf,
  wholeOf,
} from '../values.ts'
import { type AmountReading, readAmount, type UnitScale } from './quota.ts'
import { isDeletedRow } from './users.ts'

export const TOKEN_COLUMNS = [
  'user_id',
  'key',
  'status',
  'name',
  'created_time',
  'expired_time',
  'remain_quota',
  'unlimited_quota',
  'model_limits_enabled',
  'model_limits',
  'allow_ips',
  'group',
  'deleted_at',
  'models',
  'subnet',
] as const

const MAX_MODEL_LENGTH = 255

export type TokenReading = {
  readonly variant: 'new-api' | 'one-api'
  readonly scale: UnitScale
  readonly now: number
  readonly notes: Pick<ImportNotes, 'note'>
}

type Warn = (message: string) => void

/** Addresses are a line each in new-api, which ignores commas and blanks, and separated by commas in one-api. */
function addressesOf(row: SourceRow, variant: TokenReading['variant']): string[] {
  const parts =
    variant === 'one-api'
      ? textOf(row.subnet).split(',')
      : textOf(row.allow_ips)
          .split(/\r?\n/)
          .map(line => line.replace(/[,\s]/g, ''))
  return [...new Set(parts.map(part => part.trim()).filter(part => part !== ''))]
}

/** The list of allowed models; undefined for any. In new-api, a list that is switched on and empty allows none. */
function modelsOf(row: SourceRow, variant: TokenReading['variant'], warn: Warn): string[] | undefined {
  if (variant === 'new-api' && !flagOf(row.model_limits_enabled)) return undefined
  const models = namesOf(variant === 'new-api' ? row.model_limits : row.models)
  if (variant === 'one-api' && models.length === 0) return undefined
  const usable = models.filter(model => [...model].length <= MAX_MODEL_LENGTH).slice(0, MAX_NAMES)
  if (usable.length < models.length)
    warn(`its list has ${models.length} models, of which ${usable.length} can be carried over`)
  return usable
}

function validAddresses(addresses: readonly string[], warn: Warn): string[] {
  for (const address of addresses)
    if (!isAddressOrRange(address)) warn(`allows ${quoted(address)}, which is no address; it is left out`)
  return addresses.filter(isAddressOrRange)
}

/** Whether the status that the program wrote follows from the token's time or quota, as it does here. */
function isDerivedStatus(
  status: number,
  { expiredTime, now, amount }: { expiredTime: number; now: number; amount: AmountReading },
): boolean {
  if (status === TOKEN_STATUS.expired) return expiredTime !== NEVER && expiredTime <= now
  return status === TOKEN_STATUS.exhausted && !amount.isUnlimited && amount.nanos === 0
}

/** A token; undefined for a deleted one, or one whose value cannot be used. */
export function readToken(
  row: SourceRow,
  { variant, scale, now, notes }: TokenReading,
): SourceToken | undefined {
  if (isDeletedRow(row)) return undefined
  const label = `token ${lineOf(row.id, 30)} ${quoted(row.name)} of user ${lineOf(row.user_id, 30)}`
  const warn = (message: string) => notes.note('token', label, message)
  // one-api's column in PostgreSQL pads shorter values with blanks.
  const value = textOf(row.key).trim().replace(/^sk-/, '')
  if (!/^[\x21-\x7e]{8,256}$/.test(value)) {
    warn('its value is shorter than 8 characters or cannot be sent in a header; it is not carried over')
    return undefined
  }
  if (value.includes('-')) warn('its value contains "-", so new-api refuses it; here it is valid')
  const amount: AmountReading = flagOf(row.unlimited_quota)
    ? { nanos: 0, isUnlimited: true }
    : readAmount(row.remain_quota, scale)
  if (amount.change) warn(amount.change)
  const addresses = addressesOf(row, variant)
  const allowIps = validAddresses(addresses, warn)
  const isUsableNowhere = addresses.length > 0 && allowIps.length === 0
  if (isUsableNowhere)
    warn('allows no valid address; it becomes disabled, so that it is not usable from everywhere')
  const time = wholeOf(row.expired_time) ?? -1n
  const expiredTime = time === -1n ? NEVER : boundedOf(time, 0, MAX_TIME, 0)
  const status = boundedOf(row.status, 0, 9, TOKEN_STATUS.enabled)
  const isOpen = status === TOKEN_STATUS.enabled || isDerivedStatus(status, { expiredTime, now, amount })
  if (!isOpen && status !== TOKEN_STATUS.disabled)
    warn(`has the status ${status}, which does not follow from its time or quota; it becomes disabled`)
  return {
    sourceId: textOf(row.id),
    anchor: '',
    label,
    nanos: amount.nanos,
    isUnlimited: amount.isUnlimited,
    ownerId: textOf(row.user_id),
    key: { value: `sk-${value}` },
    name: lineOf(row.name, 50) || `token-${lineOf(row.id, 30)}`,
    isEnabled: isOpen && !isUsableNowhere,
    createdTime: timeOf(row.created_time),
    expiredTime,
    models: modelsOf(row, variant, warn),
    allowIps,
    group: lineOf(row.group, 64) || 'default',
    limits: '{}',
  }
}
