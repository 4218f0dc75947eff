import { createClock } from '../../../src/domain/calendar.ts'
import { preferences } from './preferences.ts'

/** Read once: asking the browser takes longer than formatting a date. */
const BROWSER_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone

/** The time zone of all dates: the chosen one, or the browser's. */
export const zone = () => preferences().timeZone ?? BROWSER_ZONE

/** All time zones. */
export const zones = (): readonly string[] => ['UTC', ...Intl.supportedValuesOf('timeZone')]

/** A time as the value of a `datetime-local` input. */
export const toDateField = (unixS: number) =>
  new Date(createClock(zone())(unixS) * 1000).toISOString().slice(0, 16)

/** The time of a `datetime-local` input in seconds; undefined when it is empty. */
export function fromDateField(text: string): number | undefined {
  const wallClock = Date.parse(`${text}Z`) / 1000
  if (Number.isNaN(wallClock)) return undefined
  const clockAt = createClock(zone())
  // Two steps, because the first guess may be on the other side of a daylight saving change.
  const guess = wallClock - (clockAt(wallClock) - wallClock)
  return Math.floor(wallClock - (clockAt(guess) - guess))
}
