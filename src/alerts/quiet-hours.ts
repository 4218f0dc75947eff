import type { RuleOptions } from '../domain/alert.ts'

const minutesOf = (time: string) => {
  const [hours = 0, minutes = 0] = time.split(':').map(Number)
  return hours * 60 + minutes
}

/** The time of day in a time zone, in minutes. */
function minuteOfDay(timeZone: string, now: number): number {
  const parts = new Intl.DateTimeFormat('en', {
    timeZone,
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  })
  return minutesOf(parts.format(now * 1000))
}

/** Whether a rule sends nothing now. Quiet hours may pass midnight: from 22:00 to 07:00. */
export function isQuiet(
  { quiet_from, quiet_to, time_zone }: Pick<RuleOptions, 'quiet_from' | 'quiet_to' | 'time_zone'>,
  now: number,
): boolean {
  if (quiet_from === null || quiet_to === null) return false
  const [from, to, minute] = [minutesOf(quiet_from), minutesOf(quiet_to), minuteOfDay(time_zone, now)]
  return from <= to ? minute >= from && minute < to : minute >= from || minute < to
}
