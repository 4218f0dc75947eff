import { isObject } from '../../domain/json-object.ts'
import { codePoints, storable } from '../../domain/text.ts'

/** Reads values of another gateway's database. Its drivers return one type for a column, the database may hold any. */

export type SourceRow = Readonly<Record<string, unknown>>

/** A text in any form: JSON columns are BLOBs or parsed objects, depending on the database. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return storable(value)
  if (value === null || value === undefined) return ''
  if (value instanceof Uint8Array) return storable(Buffer.from(value).toString('utf8'))
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? '' : value.toISOString()
  return typeof value === 'object' ? storable(JSON.stringify(value)) : String(value)
}

/** A whole number, or undefined if there is none. Fractions are cut off. */
export function wholeOf(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return value
  if (typeof value === 'boolean') return value ? 1n : 0n
  if (typeof value === 'number') return Number.isFinite(value) ? BigInt(Math.trunc(value)) : undefined
  const text = textOf(value).trim()
  return /^-?\d{1,40}$/.test(text) ? BigInt(text) : undefined
}

const clamp = (value: bigint, min: number, max: number): number =>
  value < BigInt(min) ? min : value > BigInt(max) ? max : Number(value)

/** A whole number within bounds. */
export const boundedOf = (value: unknown, min: number, max: number, otherwise: number): number => {
  const whole = wholeOf(value)
  return whole === undefined ? otherwise : clamp(whole, min, max)
}

export const MAX_TIME = 100_000_000_000

/** Unix seconds; 0 if there is no time. */
export const timeOf = (value: unknown): number => boundedOf(value, 0, MAX_TIME, 0)

export const flagOf = (value: unknown): boolean =>
  value === true || wholeOf(value) === 1n || textOf(value).toLowerCase() === 'true'

/** An object of JSON; undefined if the text is no valid one, and an empty object if there is no text. */
export function objectOf(value: unknown): Record<string, unknown> | undefined {
  const text = textOf(value).trim()
  if (text === '' || text === 'null') return {}
  try {
    const parsed: unknown = JSON.parse(text)
    return isObject(parsed) ? (parsed as Record<string, unknown>) : undefined
  } catch {
    // The message of the error would quote the text, which may hold a secret.
    return undefined
  }
}

export const namesOf = (value: unknown): string[] => [
  ...new Set(
    textOf(value)
      .split(/[,\r\n]/)
      .map(name => name.trim())
      .filter(name => name !== ''),
  ),
]

/** A rate of a price, which takes six decimals. */
export const rateOf = (usd: number): number => Number(usd.toFixed(6))

/** One line without control characters, at most `max` code points. */
export function lineOf(value: unknown, max: number): string {
  const line = textOf(value)
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
  return codePoints(line) <= max ? line : [...line].slice(0, max).join('').trim()
}

/** A text of another gateway in a report: on a terminal, control characters would be commands. */
export const quoted = (value: unknown): string => {
  const line = textOf(value).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '\ufffd')
  return `"${codePoints(line) <= 60 ? line : `${[...line].slice(0, 59).join('')}…`}"`
}
