/** The fields to add to a line: how many like it were left out since the last one. */
type LeftOut = { readonly since_last?: number }

/**
 * Limits lines that repeat, such as one for each request during an outage. The first line of a name is written at once, then
 * one per interval. Returns undefined for a line that is left out. The names must be few: they stay in memory.
 */
export function createRepeatLimit(everyMs: number, nowMs: () => number) {
  const last = new Map<string, { ms: number; leftOut: number }>()
  return function admitLine(name: string): LeftOut | undefined {
    const previous = last.get(name)
    const ms = nowMs()
    // A clock that was set back must not silence the log.
    if (previous && ms >= previous.ms && ms - previous.ms < everyMs) {
      previous.leftOut += 1
      return undefined
    }
    last.set(name, { ms, leftOut: 0 })
    return previous && previous.leftOut > 0 ? { since_last: previous.leftOut } : {}
  }
}
