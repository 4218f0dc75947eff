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

/** Local time of a zone, as if it were Unix seconds of UTC. */
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

/** The UTC offset of a zone at a moment, in seconds. */
function createOffset(timeZone: string): (time: number) => number {
  const clock = createClock(timeZone)
  return time => clock(time) - time
}

/**
 * The start times of a chart's intervals. `stepS` is a whole number of hours or days: hours are counted from midnight, and
 * days begin at midnight of the zone, also on days of 23 or 25 hours. The first interval may begin before `from`.
 */
export function intervalStarts(from: number, to: number, stepS: number, timeZone: string): number[] {
  const offsetAt = createOffset(timeZone)
  const starts: number[] = []
  const isDays = stepS >= 24 * HOUR_S
  const first = from + offsetAt(from)
  for (let local = first - (first % stepS); ; local += stepS) {
    // On a day with a daylight saving change two offsets are possible: the offset at midnight is the right one.
    const guess = local - offsetAt(local - offsetAt(from))
    const start = isDays ? local - offsetAt(guess) : guess
    if (start >= to) return starts
    if (starts.length === 0 || start > (starts.at(-1) ?? 0)) starts.push(start)
  }
}
