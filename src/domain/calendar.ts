/** Whether the name is a time zone that this machine knows. */
export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

const HOUR_S = 3600

/** What the clocks of a zone show at a moment, in seconds of a day that has no zone. */
export function createClock(timeZone: string): (time: number) => number {
  const format = new Intl.DateTimeFormat('en', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  return time => {
    const part = Object.fromEntries(
      format.formatToParts(time * 1000).map(({ type, value }) => [type, Number(value)]),
    ) as Record<'year' | 'month' | 'day' | 'hour' | 'minute' | 'second', number>
    return Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second) / 1000
  }
}

/** How far a zone is ahead of UTC at a moment, in seconds. */
function createOffset(timeZone: string): (time: number) => number {
  const clock = createClock(timeZone)
  return time => clock(time) - time
}

/**
 * Where the stretches of a chart begin, for a whole number of hours or days each: hours are counted from midnight, days
 * begin at midnight of the zone, also those with 23 or 25 hours. The first may begin before `from`.
 */
export function stretches(from: number, to: number, stepS: number, timeZone: string): number[] {
  const offsetAt = createOffset(timeZone)
  const starts: number[] = []
  const isDays = stepS >= 24 * HOUR_S
  const first = from + offsetAt(from)
  for (let local = first - (first % stepS); ; local += stepS) {
    // The offset before the change and the one after it: midnight itself decides.
    const guess = local - offsetAt(local - offsetAt(from))
    const start = isDays ? local - offsetAt(guess) : guess
    if (start >= to) return starts
    if (starts.length === 0 || start > (starts.at(-1) ?? 0)) starts.push(start)
  }
}
