import { UNITS_PER_USD } from '../../../src/manage/contract/constants.ts'
import { preferences } from './preferences.ts'
import { zone } from './zone.ts'

/**
 * Formats every figure of the console (docs/reference/console.md: Figures). The console computes nothing that the API does
 * not state.
 */

const NONE = '–'
const language = () => preferences().language
const number = (options: Intl.NumberFormatOptions = {}) => new Intl.NumberFormat(language(), options)
const dollars = (fraction: number) =>
  number({
    style: 'currency',
    currency: 'USD',
    currencyDisplay: 'narrowSymbol',
    minimumFractionDigits: fraction,
    maximumFractionDigits: fraction,
  })

/** A decimal text, as the API tells exact money, is formatted without becoming a binary fraction. */
const exact = (text: string) => text as unknown as number

/** Money of one thing: six decimals, so that a quota unit shows and columns align. */
export const moneyOfOne = (usd: string) => dollars(6).format(exact(usd))
/** Money as the ledger keeps it. */
export const moneyOfLedger = (usd: string) => dollars(9).format(exact(usd))

/** A line of a cost, whose rates go below a nanodollar: nine decimals, and more where there are more. */
export const moneyOfLine = (usd: string) =>
  number({
    style: 'currency',
    currency: 'USD',
    currencyDisplay: 'narrowSymbol',
    minimumFractionDigits: 9,
    maximumFractionDigits: 12,
  }).format(exact(usd))

/** Money of a span: two decimals; what is too small for them is not called zero. */
export function moneyOfSpan(units: number | undefined): string {
  if (units === undefined) return NONE
  const usd = units / UNITS_PER_USD
  return usd > 0 && usd < 0.01 ? `<${dollars(2).format(0.01)}` : dollars(2).format(usd)
}
/** The same, of an amount the API told exactly. */
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

/** People say k and M for tokens in both languages. */
export function tokens(value: number): string {
  if (value < 10_000) return number().format(value)
  return new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })
    .format(value)
    .replace('K', 'k')
}

const NBSP = '\u00a0'
const MINUTE_MS = 60_000

export function span(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return NONE
  if (ms < 1000) return `${Math.round(ms)}${NBSP}ms`
  if (ms < MINUTE_MS) return `${number({ maximumFractionDigits: 2 }).format(ms / 1000)}${NBSP}s`
  const minutes = Math.floor(ms / MINUTE_MS)
  return `${minutes}${NBSP}min${NBSP}${Math.round((ms % MINUTE_MS) / 1000)}${NBSP}s`
}

/** Cut, not rounded: 99.97 % is not 100. */
export function share(part: number, whole: number): string {
  if (whole === 0) return NONE
  const percent = Math.floor((part / whole) * 1000) / 10
  if (part > 0 && percent < 0.1) return `<0.1${NBSP}%`
  return `${number({ maximumFractionDigits: 1 }).format(percent)}${NBSP}%`
}

/** By how much a figure differs from another, as a share of that other. */
export const change = (now: number, before: number) =>
  `${number({ maximumSignificantDigits: 2 }).format((Math.abs(now - before) / before) * 100)}${NBSP}%`

const CLOCK = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const

/** Today the clock, this year the day, else the year as well. */
export function moment(unixS: number): string {
  const now = new Date()
  const date = new Date(unixS * 1000)
  const format = (options: Intl.DateTimeFormatOptions, of = date) =>
    new Intl.DateTimeFormat(language(), { timeZone: zone(), ...options }).format(of)
  const isSame = (options: Intl.DateTimeFormatOptions) => format(options) === format(options, now)
  if (isSame({ dateStyle: 'short' })) return format({ ...CLOCK, second: '2-digit' })
  if (isSame({ year: 'numeric' })) return format({ month: 'short', day: 'numeric', ...CLOCK })
  return format({ year: 'numeric', month: 'short', day: 'numeric', ...CLOCK })
}

/** Where a bar of a chart begins: the day where it is a large part of one, else the clock. */
export const axisMoment = (unixS: number, isDay: boolean) =>
  new Intl.DateTimeFormat(language(), {
    timeZone: zone(),
    ...(isDay ? { month: 'short', day: 'numeric' } : CLOCK),
  }).format(unixS * 1000)

/** From one time to another, with what both have in common said once. */
export const stretchText = (fromS: number, toS: number) =>
  new Intl.DateTimeFormat(language(), {
    timeZone: zone(),
    month: 'short',
    day: 'numeric',
    ...CLOCK,
  }).formatRange(fromS * 1000, toS * 1000)

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
  return new Intl.RelativeTimeFormat(language(), { numeric: 'auto' }).format(
    Math.trunc(distance / size),
    unit,
  )
}

const TAIL = 4

export const cutMiddle = (text: string, head = 8) =>
  text.length <= head + TAIL + 1 ? text : `${text.slice(0, head)}…${text.slice(-TAIL)}`
