/**
 * Money is integers. Balances and charges are nanodollars, rates are picodollars; the API's quota units exist only
 * at the edge. Every figure stays a safe integer: what does not fit is an error, never a silent approximation.
 */

export const NANOS_PER_UNIT = 2_000
export const UNITS_PER_USD = 500_000
export const PICOS_PER_NANO = 1_000
export const NANO_DIGITS = 9

/** The largest quota. In nanodollars it still lies below 2^53, which is also the largest integer the store can read back. */
export const MAX_UNITS = 4_000_000_000_000

/** Passes a safe integer through. A sum or product of safe integers that overflowed is never one, so this catches it. */
export function safe(amount: number): number {
  if (!Number.isSafeInteger(amount)) throw new RangeError(`${amount} is not an exact amount of money`)
  return amount
}

/** Whole units a balance still holds; a started unit does not count. With `unitsUsed` it adds up to what was granted. */
export function unitsLeft(nanos: number): number {
  return floorDivide(nanos, NANOS_PER_UNIT)
}

/** Whole units a charge takes; a started unit counts. */
export function unitsUsed(nanos: number): number {
  return ceilDivide(nanos, NANOS_PER_UNIT)
}

export function nanosOf(units: number): number {
  return safe(safe(units) * NANOS_PER_UNIT)
}

/** The one rounding of a request's cost, in the house's favour by less than a nanodollar. */
export function nanosFromPicos(picos: number): number {
  return ceilDivide(picos, PICOS_PER_NANO)
}

/** Exact dollars as a decimal text without trailing zeros: 1 is `0.000000001`, 0 is `0`. */
export function usdText(nanos: number): string {
  const digits = String(Math.abs(safe(nanos))).padStart(NANO_DIGITS + 1, '0')
  const fraction = digits.slice(-NANO_DIGITS).replace(/0+$/, '')
  return `${nanos < 0 ? '-' : ''}${digits.slice(0, -NANO_DIGITS)}${fraction && `.${fraction}`}`
}

const DECIMAL = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i
const MAX_SAFE_DIGITS = 16

/**
 * `value` × 10^`digits` as an exact integer, or undefined when it is not one, is negative, or passes 2^53.
 * A number is taken as the decimal it prints as: 0.1 is a tenth, not the binary fraction beside it.
 */
export function scaled(value: number | string, digits: number): number | undefined {
  const [whole, minus, integer = '', fraction = '', exponent = '0'] = DECIMAL.exec(String(value)) ?? []
  if (whole === undefined) return undefined
  const written = integer + fraction
  const zeros = trailingZeros(written)
  const significant = written.slice(0, written.length - zeros).replace(/^0+/, '')
  if (significant === '') return 0
  if (minus) return undefined
  const shift = Number(exponent) - fraction.length + zeros + digits
  if (shift < 0 || significant.length + shift > MAX_SAFE_DIGITS) return undefined
  const amount = Number(`${significant}${'0'.repeat(shift)}`)
  return Number.isSafeInteger(amount) ? amount : undefined
}

/** `amount` × 10^-`digits` as a plain decimal text without trailing zeros. */
export function decimalText(amount: bigint, digits: number): string {
  const written = String(amount).padStart(digits + 1, '0')
  const fraction = written.slice(-digits).replace(/0+$/, '')
  return `${written.slice(0, -digits)}${fraction && `.${fraction}`}`
}

/** More decimals than any vendor writes: the last digit of a double that stands for a millionth of a cent. */
const VENDOR_DIGITS = 24
const MAX_VENDOR_USD = 1_000_000

const vendorAmount = (usd: number | string): bigint => {
  const [, , integer = '0', fraction = '', exponent = '0'] = DECIMAL.exec(String(usd)) ?? []
  const shift = VENDOR_DIGITS - fraction.length + Number(exponent)
  const digits = BigInt(integer + fraction)
  return shift >= 0 ? digits * 10n ** BigInt(shift) : digits / 10n ** BigInt(-shift)
}

/** What a vendor states in USD, as the decimal it wrote; undefined where it is no cost that can be true. */
export const vendorUsd = (usd: number): string | undefined =>
  Number.isFinite(usd) && usd >= 0 && usd <= MAX_VENDOR_USD
    ? decimalText(vendorAmount(usd), VENDOR_DIGITS)
    : undefined

/** Several of those as one. */
export const sumVendorUsd = (costs: readonly string[]): string =>
  decimalText(
    costs.reduce((sum, usd) => sum + vendorAmount(usd), 0n),
    VENDOR_DIGITS,
  )

/** The same to the nearest nanodollar, for sums. */
export const vendorNanos = (usd: string): number => Math.round(Number(usd) * 10 ** NANO_DIGITS)

/** A loop, because a pattern anchored at the end is quadratic on a long text of zeros. */
function trailingZeros(digits: string): number {
  let end = digits.length
  while (end > 0 && digits[end - 1] === '0') end--
  return digits.length - end
}

// By remainder: a quotient above 2^42 has no room left for the fraction that decides the rounding.
function floorDivide(amount: number, divisor: number): number {
  const rest = safe(amount) % divisor
  return (amount - rest) / divisor - (rest < 0 ? 1 : 0)
}

function ceilDivide(amount: number, divisor: number): number {
  const rest = safe(amount) % divisor
  return (amount - rest) / divisor + (rest > 0 ? 1 : 0)
}
