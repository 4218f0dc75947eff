import { MAX_UNITS, nanosOf, UNITS_PER_USD } from '../../../domain/money.ts'
import type { Amount } from '../inventory.ts'
import { textOf, wholeOf } from '../values.ts'

const MAX_NANOS = BigInt(nanosOf(MAX_UNITS))
const NANOS_PER_USD = 1_000_000_000n
/** `QuotaPerUnit` is a decimal number. */
const DIGITS = 6

/** The units of one USD in the other gateway, times 10^6. */
export type UnitScale = bigint

export const DEFAULT_SCALE: UnitScale = BigInt(UNITS_PER_USD) * 10n ** BigInt(DIGITS)

/** Undefined if the text is no positive number. */
export function readScale(option: unknown): UnitScale | undefined {
  const [, whole, fraction = ''] = /^(\d{1,15})(?:\.(\d+))?$/.exec(textOf(option).trim()) ?? []
  if (whole === undefined) return undefined
  const scale = BigInt(whole + fraction.slice(0, DIGITS).padEnd(DIGITS, '0'))
  return scale > 0n ? scale : undefined
}

/** Nanodollars of so many units, rounded down. */
export const nanosOfUnits = (units: bigint, scale: UnitScale): bigint =>
  (units * NANOS_PER_USD * 10n ** BigInt(DIGITS)) / scale

export type AmountReading = Amount & { readonly change?: string }

/** A balance or a limit. Negative ones become 0, and those above our maximum unlimited. */
export function readAmount(value: unknown, scale: UnitScale): AmountReading {
  const units = wholeOf(value)
  if (units === undefined)
    return { nanos: 0, isUnlimited: false, change: 'its quota is not a number; it becomes 0' }
  if (units < 0n)
    return { nanos: 0, isUnlimited: false, change: `its quota is negative (${units}); it becomes 0` }
  const nanos = nanosOfUnits(units, scale)
  if (nanos > MAX_NANOS)
    return {
      nanos: 0,
      isUnlimited: true,
      change: `its quota (${units}) is above the maximum of ${MAX_UNITS}; it becomes unlimited_quota`,
    }
  return { nanos: Number(nanos), isUnlimited: false }
}
