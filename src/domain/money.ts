/**
 * Amounts of money are integers: balances and charges in nanodollars, rates in picodollars. Only the API converts them to
 * quota units. Every amount is a safe integer: an amount that does not fit throws and is never approximated.
 */

export const NANOS_PER_UNIT = 2_000
export const UNITS_PER_USD = 500_000
export const PICOS_PER_NANO = 1_000
export const NANO_DIGITS = 9
const NANOS_PER_USD = 10 ** NANO_DIGITS

/** The largest quota. In nanodollars it is below 2^53, the largest integer that the store can read back. */
export const MAX_UNITS = 4_000_000_000_000

/** Returns a safe integer unchanged and throws otherwise. A sum or product that overflowed is never a safe integer. */
export function safe(amount: number): number {
  if (!Number.isSafeInteger(amount)) throw new RangeError(`${amount} is not an exact amount of money`)
  return amount
}

/** The amount, or undefined if it is too large to be exact. */
export function exactOrUndefined(amount: () => number): number | undefined {
  try {
    return amount()
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** The remaining balance in units, rounded down. With `unitsUsed` it adds up to the granted amount. */
export function unitsLeft(nanos: number): number {
  return floorDivide(nanos, NANOS_PER_UNIT)
}

/** A charge in units, rounded up. */
export function unitsUsed(nanos: number): number {
  return ceilDivide(nanos, NANOS_PER_UNIT)
}

export function nanosOf(units: number): number {
  return safe(safe(units) * NANOS_PER_UNIT)
}

/** The only rounding of a request's cost: up to the next nanodollar. */
export function nanosFromPicos(picos: number): number {
  return ceilDivide(picos, PICOS_PER_NANO)
}

/** Exact dollars as a decimal string without trailing zeros: 1 is `0.000000001`, 0 is `0`. */
export function usdText(nanos: number): string {
  const amount = Math.abs(safe(nanos))
  let fraction = amount % NANOS_PER_USD
  const whole = `${nanos < 0 ? '-' : ''}${(amount - fraction) / NANOS_PER_USD}`
  if (fraction === 0) return whole
  let digits = NANO_DIGITS
  for (; fraction % 10 === 0; fraction /= 10) digits -= 1
  return `${whole}.${String(fraction).padStart(digits, '0')}`
}

const DECIMAL = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i
const MAX_SAFE_DIGITS = 16

/**
 * `value` × 10^`digits` as an exact integer, or undefined if it is not one, is negative, or exceeds 2^53.
 * A number is read as the decimal that it prints as: 0.1 is a tenth, not the nearest binary fraction.
 */
export function scaled(value: number | string, digits: number): number | undefined {
  const [whole, minus, integer = '', fraction = '', exponent = '0'] = DECIMAL.exec(String(value)) ?? []
  if (whole === undefined) return undefined
  const allDigits = integer + fraction
  const zeros = trailingZeros(allDigits)
  const significant = allDigits.slice(0, allDigits.length - zeros).replace(/^0+/, '')
  if (significant === '') return 0
  if (minus) return undefined
  const shift = Number(exponent) - fraction.length + zeros + digits
  if (shift < 0 || significant.length + shift > MAX_SAFE_DIGITS) return undefined
  const amount = Number(`${significant}${'0'.repeat(shift)}`)
  return Number.isSafeInteger(amount) ? amount : undefined
}

/** `amount` × 10^-`digits` as a decimal string without trailing zeros. */
export function decimalText(amount: bigint, digits: number): string {
  const padded = String(amount).padStart(digits + 1, '0')
  const fraction = padded.slice(-digits).replace(/0+$/, '')
  return `${padded.slice(0, -digits)}${fraction && `.${fraction}`}`
}

/** More decimals than any vendor reports: enough for every digit of a double as small as a millionth of a cent. */
const VENDOR_DIGITS = 24
const MAX_VENDOR_USD = 1_000_000

/** The amount in 10^-24 USD. */
const vendorAmount = (usd: number | string): bigint => {
  const [, , integer = '0', fraction = '', exponent = '0'] = DECIMAL.exec(String(usd)) ?? []
  const shift = VENDOR_DIGITS - fraction.length + Number(exponent)
  const digits = BigInt(integer + fraction)
  return shift >= 0 ? digits * 10n ** BigInt(shift) : digits / 10n ** BigInt(-shift)
}

/** A cost that a vendor reports in USD, as a decimal string; undefined if the cost is implausible. */
export const vendorUsd = (usd: number): string | undefined =>
  Number.isFinite(usd) && usd >= 0 && usd <= MAX_VENDOR_USD
    ? decimalText(vendorAmount(usd), VENDOR_DIGITS)
    : undefined

/** The sum of several vendor costs. */
export const sumVendorUsd = (costs: readonly string[]): string =>
  decimalText(
    costs.reduce((sum, usd) => sum + vendorAmount(usd), 0n),
    VENDOR_DIGITS,
  )

/** A vendor cost to the nearest nanodollar, for totals. */
export const vendorNanos = (usd: string): number => Math.round(Number(usd) * 10 ** NANO_DIGITS)

/** A loop, because a regular expression anchored at the end is quadratic on a long run of zeros. */
function trailingZeros(digits: string): number {
  let end = digits.length
  while (end > 0 && digits[end - 1] === '0') end--
  return digits.length - end
}

// Uses the remainder: a floating-point quotient above 2^42 loses the fraction that decides the rounding.
function floorDivide(amount: number, divisor: number): number {
  const rest = safe(amount) % divisor
  return (amount - rest) / divisor - (rest < 0 ? 1 : 0)
}

function ceilDivide(amount: number, divisor: number): number {
  const rest = safe(amount) % divisor
  return (amount - rest) / divisor + (rest > 0 ? 1 : 0)
}
