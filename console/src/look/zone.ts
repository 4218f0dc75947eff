import { createClock } from '../../../src/domain/calendar.ts'
import { preferences } from './preferences.ts'

const browserZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone

/** The time zone that moments and days are told in: the one chosen in Personal settings, or this browser's. */
export const zone = () => preferences().timeZone ?? browserZone()

/** Every zone there is to choose from. */
export const zones = (): readonly string[] => ['UTC', ...Intl.supportedValuesOf('timeZone')]

/** A moment as the text that a field for date and time takes. */
export const toDateField = (unixS: number) =>
  new Date(createClock(zone())(unixS) * 1000).toISOString().slice(0, 16)

/** The moment that a field for date and time means, in seconds; undefined while it is not filled in. */
export function fromDateField(text: string): number | undefined {
  const wallClock = Date.parse(`${text}Z`) / 1000
  if (Number.isNaN(wallClock)) return undefined
  const clockAt = createClock(zone())
  // Twice, because the first guess may lie on the other side of a change of the clocks.
  const guess = wallClock - (clockAt(wallClock) - wallClock)
  return Math.floor(wallClock - (clockAt(guess) - guess))
}
