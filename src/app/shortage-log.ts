import type { Logger } from 'pino'
import type { Shortage } from '../domain/shortage.ts'

const EVERY_MS = 60_000

/** Logs what the machine has run out of and which setting to change: each shortage once a minute. */
export function createShortageLog(log: Pick<Logger, 'error'>, nowMs: () => number) {
  const last = new Map<string, { ms: number; times: number }>()
  return function logShortage({ code, resource, advice }: Shortage): void {
    const previous = last.get(code)
    if (previous && nowMs() - previous.ms < EVERY_MS) {
      previous.times += 1
      return
    }
    last.set(code, { ms: nowMs(), times: 0 })
    const since = previous && previous.times > 0 ? { since_last: previous.times } : {}
    log.error(
      { code, ...since },
      `The gateway is out of ${resource}. Requests are refused with 503. ${advice}`,
    )
  }
}
