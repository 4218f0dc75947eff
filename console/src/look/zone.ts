import { preferences } from './preferences.ts'

const browserZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone

/** The time zone that moments and days are told in: the one chosen in Personal settings, or this browser's. */
export const zone = () => preferences().timeZone ?? browserZone()

/** Every zone there is to choose from. */
export const zones = (): readonly string[] => ['UTC', ...Intl.supportedValuesOf('timeZone')]

/** The clock of a zone at a moment, as milliseconds of a day that has no zone. */
function clockAt(ms: number): number {
  const parts = new Intl.DateTimeFormat('en', {
    timeZone: zone(),
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  }).formatToParts(ms)
  const at = (type: Intl.DateTimeFormatPartTypes) => Number(parts.find(part => part.type === type)?.value)
  return Date.UTC(at('year'), at('month') - 1, at('day'), at('hour'), at('minute'), at('second'))
}

/** A moment as the text that a field for date and time takes. */
export const toDateField = (unixS: number) => new Date(clockAt(unixS * 1000)).toISOString().slice(0, 16)

/** The moment that a field for date and time means, in seconds; undefined while it is not filled in. */
export function fromDateField(text: string): number | undefined {
  const clock = Date.parse(`${text}Z`)
  if (Number.isNaN(clock)) return undefined
  // Twice, because the first guess may lie on the other side of a change of the clocks.
  const guess = clock - (clockAt(clock) - clock)
  return Math.floor((clock - (clockAt(guess) - guess)) / 1000)
}
