import { UNITS_PER_USD } from '../../../src/manage/contract/constants.ts'
import { preferences } from './preferences.ts'
import { zone } from './zone.ts'

/**
 * Formats every figure of the console (docs/reference/console.md: Figures). All figures come from the API; the console
 * derives none.
 */

const NONE = '–'
const language = () => preferences().language

/** Creating a formatter takes about fifty times as long as formatting with it, and a page formats hundreds of values. */
function memoize<O extends object, F>(create: (language: string, options: O) => F) {
  const formatters = new Map<string, F>()
  return (options: O, inLanguage: string = language()): F => {
    const key = inLanguage + JSON.stringify(options)
    const formatter = formatters.get(key) ?? create(inLanguage, options)
    formatters.set(key, formatter)
    return formatter
  }
}
const numberFormat = memoize(
  (language, options: Intl.NumberFormatOptions) => new Intl.NumberFormat(language, options),
)
const dateFormat = memoize(
  (language, options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(language, options),
)
const relativeFormat = memoize(
  (language, options: Intl.RelativeTimeFormatOptions) => new Intl.RelativeTimeFormat(language, options),
)

const number = (options: Intl.NumberFormatOptions = {}) => numberFormat(options)
const dollars = (fraction: number) =>
  number({
    style: 'currency',
    currency: 'USD',
    currencyDisplay: 'narrowSymbol',
    minimumFractionDigits: fraction,
    maximumFractionDigits: fraction,
  })

/** `Intl.NumberFormat` formats a decimal string exactly, without converting it to a binary number. */
const exact = (text: string) => text as unknown as number

/**
 * Cost of one item: six decimals, the precision of a quota unit. A fixed number of decimals keeps columns
 * aligned.
 */
export const moneyOfOne = (usd: string) => dollars(6).format(exact(usd))
/** An amount in the precision of the ledger. */
export const moneyOfLedger = (usd: string) => dollars(9).format(exact(usd))

/** A cost line. Rates go below a nanodollar, so more than nine decimals are shown where needed. */
export const moneyOfLine = (usd: string) =>
  number({
    style: 'currency',
    currency: 'USD',
    currencyDisplay: 'narrowSymbol',
    minimumFractionDigits: 9,
    maximumFractionDigits: 12,
  }).format(exact(usd))

/** A total in quota units: two decimals, and `<$0.01` for smaller amounts. */
export function moneyOfSpan(units: number | undefined): string {
  if (units === undefined) return NONE
  const usd = units / UNITS_PER_USD
  return usd > 0 && usd < 0.01 ? `<${dollars(2).format(0.01)}` : dollars(2).format(usd)
}
/** A total that the API sends as an exact decimal. */
export const moneyOfSum = (usd: string | undefined) =>
  usd === undefined
    ? NONE
    : Number(usd) > 0 && Number(usd) < 0.01
      ? `<${dollars(2).format(0.01)}`
      : dollars(2).format(exact(usd))
export const moneyOnAxis = (usd: number) =>
  number({
    style: 'currency',
    currency: 'USD',
    currencyDisplay: 'narrowSymbol',
    notation: 'compact',
    maximumSignificantDigits: 3,
  }).format(usd)

export const usdOfUnits = (units: number) => units / UNITS_PER_USD
export const unitsOfUsd = (usd: number) => Math.round(usd * UNITS_PER_USD)

export const price = (usd: number | undefined) =>
  usd === undefined
    ? NONE
    : number({
        style: 'currency',
        currency: 'USD',
        currencyDisplay: 'narrowSymbol',
        minimumFractionDigits: 2,
        maximumFractionDigits: usd < 0.01 ? 6 : 4,
      }).format(usd)

export const count = (value: number | undefined) => (value === undefined ? NONE : number().format(value))

/** Token counts use k and M in both languages. */
export function tokens(value: number): string {
  if (value < 10_000) return number().format(value)
  return numberFormat({ notation: 'compact', maximumFractionDigits: 1 }, 'en').format(value).replace('K', 'k')
}

const NBSP = '\u00a0'

export function span(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return NONE
  // Rounded first, so that no part reaches the next unit: never "1000 ms" or "1 min 60 s".
  if (Math.round(ms) < 1000) return `${Math.round(ms)}${NBSP}ms`
  const hundredths = Math.round(ms / 10)
  if (hundredths < 6_000) return `${number({ maximumFractionDigits: 2 }).format(hundredths / 100)}${NBSP}s`
  const seconds = Math.round(ms / 1000)
  return `${Math.floor(seconds / 60)}${NBSP}min${NBSP}${seconds % 60}${NBSP}s`
}

/** Truncated, not rounded, so that 99.97 % never shows as 100 %. */
export function share(part: number, whole: number): string {
  if (whole === 0) return NONE
  const percent = Math.floor((part / whole) * 1000) / 10
  if (part > 0 && percent < 0.1) return `<0.1${NBSP}%`
  return `${number({ maximumFractionDigits: 1 }).format(percent)}${NBSP}%`
}

/** The relative change between two numbers. */
export const change = (now: number, before: number) =>
  `${number({ maximumSignificantDigits: 2 }).format((Math.abs(now - before) / before) * 100)}${NBSP}%`

const CLOCK = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const
const DAY = { month: 'short', day: 'numeric', ...CLOCK } as const
const DATE = { year: 'numeric', ...DAY } as const

const format = (unixS: number, options: Intl.DateTimeFormatOptions) =>
  dateFormat({ timeZone: zone(), ...options }).format(unixS * 1000)
const isSameNow = (unixS: number, options: Intl.DateTimeFormatOptions) =>
  format(unixS, options) === format(Date.now() / 1000, options)
const isThisYear = (unixS: number) => isSameNow(unixS, { year: 'numeric' })
const isToday = (unixS: number) => isSameNow(unixS, { dateStyle: 'short' })

/** Month, day and time; the year only when it is another one. */
export const moment = (unixS: number): string => format(unixS, isThisYear(unixS) ? DAY : DATE)

/** The same, with seconds where the time is today: rows of a log are seconds apart. */
export const momentToSecond = (unixS: number): string =>
  isToday(unixS) ? format(unixS, { ...DAY, second: '2-digit' }) : moment(unixS)

/** Axis label of a chart: the date for steps of several hours or more, otherwise the time. */
export const axisMoment = (unixS: number, isDay: boolean) =>
  format(unixS, isDay ? { month: 'short', day: 'numeric' } : CLOCK)

/** A time range. `formatRange` prints the common parts once. */
export const timeRangeText = (fromS: number, toS: number) =>
  dateFormat({ timeZone: zone(), ...DAY }).formatRange(fromS * 1000, toS * 1000)

export const momentInFull = (unixS: number) => `${new Date(unixS * 1000).toISOString()} (${zone()})`

const RELATIVE: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
]
/** "in 3 days", "5 minutes ago". */
export function fromNow(unixS: number): string {
  const distance = unixS - Date.now() / 1000
  const [unit, size] = RELATIVE.find(([, seconds]) => Math.abs(distance) >= seconds) ?? ['second', 1]
  return relativeFormat({ numeric: 'auto' }).format(Math.trunc(distance / size), unit)
}

const TAIL = 4

export const cutMiddle = (text: string, head = 8) =>
  text.length <= head + TAIL + 1 ? text : `${text.slice(0, head)}…${text.slice(-TAIL)}`
